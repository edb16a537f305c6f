-- What version 13 of the schema adds: forks, which a restored backup begins. Version 12 would take
-- their units and entries for those of before.

-- the mark of the fork under which an entry was written or a unit was put
ALTER TABLE ledger ADD COLUMN fork INTEGER NOT NULL DEFAULT 0;
ALTER TABLE units ADD COLUMN fork INTEGER NOT NULL DEFAULT 0;
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '13');
