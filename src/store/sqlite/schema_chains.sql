-- What version 11 of the schema adds to the settled ledger: running digests of entries, and
-- erasures of users. Version 10 works with it; the digest then begins anew.

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
