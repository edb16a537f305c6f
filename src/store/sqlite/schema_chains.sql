-- What version 11 of the schema adds to the settled ledger: running digests of entries, erasures of
-- users, and revocations among operators' acts. Version 10 works with it; the digest then begins
-- anew.

ALTER TABLE cursors ADD COLUMN chain BLOB; -- SHA-256 of the entries chain_first to chain_last
ALTER TABLE cursors ADD COLUMN chain_first INTEGER;
ALTER TABLE cursors ADD COLUMN chain_last INTEGER;

-- erasures of users' clear values, without saying whose
CREATE TABLE erasures (
    number INTEGER PRIMARY KEY,
    erased_at INTEGER NOT NULL,
    operator TEXT NOT NULL,
    reason TEXT NOT NULL,
    pseudonyms TEXT NOT NULL, -- JSON list of the user's pseudonyms in the entries
    entries INTEGER NOT NULL, -- entries that had a clear value of the user
    wins INTEGER NOT NULL -- rows of wins that had one
) STRICT;

-- revocations are listed with other acts, deliveries by themselves
DROP INDEX entries_operations_by_campaign;
DROP INDEX entries_operations_by_time;
CREATE INDEX entries_operations_by_campaign ON entries (campaign, at)
    WHERE (kind IN ('applied', 'operated', 'recovered', 'revoked')
     OR kind = 'refund' AND request_id IS NOT NULL);
CREATE INDEX entries_operations_by_time ON entries (at)
    WHERE (kind IN ('applied', 'operated', 'recovered', 'revoked')
     OR kind = 'refund' AND request_id IS NOT NULL);
CREATE INDEX entries_deliveries_by_campaign ON entries (campaign, at) WHERE kind = 'delivered';
CREATE INDEX entries_deliveries_by_time ON entries (at) WHERE kind = 'delivered';
