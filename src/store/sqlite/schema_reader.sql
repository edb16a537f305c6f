-- Version 4 of the schema: the lowest version that a reader must know. A newer version that only adds tables and columns leaves it as
-- it is, so that this version still opens the database.

INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '4');
