-- Version 22 of the schema: the conditions of two indexes compare `kind` with one value after the
-- other. With `IN`, SQLite made two temporary tables for each entry that it inserted. The new
-- conditions hold for the same entries, so the indexes stay as they are and only their text is
-- replaced: to make them anew, SQLite would have to read all entries. Version 21 reads and writes
-- such a file, too, but without these indexes in its lists.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = 'CREATE INDEX entries_operations_by_campaign ON entries (campaign, at)
    WHERE (kind = ''applied'' OR kind = ''operated'' OR kind = ''recovered'' OR kind = ''revoked''
     OR kind = ''refund'' AND request_id IS NOT NULL)'
    WHERE type = 'index' AND name = 'entries_operations_by_campaign';
UPDATE sqlite_schema SET sql = 'CREATE INDEX entries_operations_by_time ON entries (at)
    WHERE (kind = ''applied'' OR kind = ''operated'' OR kind = ''recovered'' OR kind = ''revoked''
     OR kind = ''refund'' AND request_id IS NOT NULL)'
    WHERE type = 'index' AND name = 'entries_operations_by_time';
PRAGMA writable_schema = RESET;
