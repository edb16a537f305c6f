-- What version 14 of the schema adds: what few users have beside the counts that every user has, and
-- codes of prizes.

ALTER TABLE users ADD COLUMN more TEXT; -- JSON of a record, see src/store/sqlite/users.rs; NULL for most

-- codes of prizes, encrypted in blocks (see src/chance/codes.rs)
CREATE TABLE codes (
    campaign INTEGER NOT NULL,
    prize INTEGER NOT NULL,
    block INTEGER NOT NULL, -- index of the first code over 64
    sealed BLOB NOT NULL,
    PRIMARY KEY (campaign, prize, block)
) STRICT, WITHOUT ROWID;

-- codes that were passed over after entries had been lost
ALTER TABLE stock ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0;
