-- What version 10 of the schema adds: what became of wins, which version 9 would misread in the
-- ledger.

-- wins that are delivered or revoked; all others are pending
CREATE TABLE deliveries (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    window INTEGER NOT NULL, -- as in units
    fork INTEGER NOT NULL,
    number INTEGER NOT NULL,
    record TEXT NOT NULL, -- JSON, see src/store/delivery.rs
    PRIMARY KEY (campaign, pool, window, number, fork)
) STRICT, WITHOUT ROWID;

-- of the units that were won, those that were revoked
ALTER TABLE stock ADD COLUMN revoked INTEGER NOT NULL DEFAULT 0;
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '10');

-- in the settled ledger
ALTER TABLE wins ADD COLUMN delivery INTEGER NOT NULL DEFAULT 0; -- 0 pending, 1 delivered, 2 revoked
ALTER TABLE wins ADD COLUMN delivery_reference TEXT NOT NULL DEFAULT ''; -- of the delivery, if there was one
ALTER TABLE wins ADD COLUMN delivery_at INTEGER; -- since when; none while it is pending
