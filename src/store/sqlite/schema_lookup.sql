-- Version 18 of the schema: entries of the settled ledger are found by users, requests and units
-- through the table `lookup` (see src/store/sqlite/lookup.rs), which was filled before this runs.
-- Version 17 would not write to it.

DROP INDEX entries_by_user;
DROP INDEX entries_draws_by_request;
DROP INDEX wins_by_user;
DROP INDEX wins_by_unit;
DELETE FROM meta WHERE key = 'looked_up';
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '18');
