-- Version 18 of the schema: entries of the settled ledger are found by users, requests and units
-- through the table `lookup`, which was built before this runs, and which has replaced four indexes
-- (see src/store/sqlite/lookup.rs). Version 17 would not write to it.

DELETE FROM meta WHERE key = 'looked_up';
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '18');
