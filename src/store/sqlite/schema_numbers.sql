-- What version 7 of the schema adds: numbers of entries within their campaigns, which version 6
-- would leave out. Entries of before have none.

ALTER TABLE ledger ADD COLUMN number INTEGER;
-- the number of the last entry that has one; that of entries of envelopes is in meta
ALTER TABLE campaigns ADD COLUMN entries INTEGER NOT NULL DEFAULT 0;
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '7');
