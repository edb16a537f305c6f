-- What version 15 of the schema adds besides: proposals, and who proposed a version.

-- the identity that proposed it, if the operator approved a proposal
ALTER TABLE versions ADD COLUMN proposed_by TEXT;

-- The proposals of each campaign, which may not exist yet.
CREATE TABLE proposals (
    campaign TEXT PRIMARY KEY,
    list TEXT NOT NULL,       -- JSON
    kept_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The definitions of proposed versions.
CREATE TABLE proposed (
    campaign TEXT NOT NULL,
    id TEXT NOT NULL,
    definition BLOB NOT NULL, -- encoded
    PRIMARY KEY (campaign, id)
) STRICT, WITHOUT ROWID;
