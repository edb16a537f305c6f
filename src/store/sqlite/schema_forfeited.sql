-- What version 6 of the schema adds: forfeited cards, which version 5 would misread in the ledger.

-- of the returned units, those of cards that were drawn by users who may not have the prize
ALTER TABLE stock ADD COLUMN forfeited INTEGER NOT NULL DEFAULT 0;
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '6');
