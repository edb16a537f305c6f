-- What version 15 of the schema adds besides: what came of draws in each hour, as in PostgreSQL (see
-- src/ledger/migrations).

CREATE TABLE activity (
    campaign TEXT NOT NULL,
    hour INTEGER NOT NULL, -- its beginning, in microseconds since 1970
    draws INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    consolations INTEGER NOT NULL,
    PRIMARY KEY (campaign, hour)
) STRICT, WITHOUT ROWID;
