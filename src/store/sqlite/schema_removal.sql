-- What version 12 of the schema adds: the end of a campaign's data, after which version 11 would
-- take its id for a campaign without a definition.

-- since when nothing has happened to a closed campaign; 0 while its data are being removed
ALTER TABLE campaigns ADD COLUMN closed INTEGER;
-- the campaign's end, once its data are leaving: the row is the tombstone of its id then
ALTER TABLE campaigns ADD COLUMN removed INTEGER;
UPDATE campaigns SET closed = COALESCE((SELECT at FROM ledger ORDER BY sequence DESC LIMIT 1), 1)
WHERE lifecycle = 3;
CREATE INDEX campaigns_by_close ON campaigns (closed, id) WHERE closed IS NOT NULL;
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '12');

-- in the settled ledger, as in PostgreSQL (see src/ledger/migrations)
CREATE TABLE removed_campaigns (
    campaign TEXT PRIMARY KEY,
    partition INTEGER NOT NULL,
    version INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    at INTEGER NOT NULL,
    nonce BLOB NOT NULL,
    commitment TEXT NOT NULL,
    users INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    consolations INTEGER NOT NULL,
    nothings INTEGER NOT NULL,
    record TEXT NOT NULL -- JSON, see src/ledger/removed.rs
) STRICT, WITHOUT ROWID;

CREATE TABLE removed_versions (
    campaign TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    operator TEXT NOT NULL,
    reason TEXT NOT NULL,
    definition BLOB NOT NULL, -- tombola.v1.Campaign
    PRIMARY KEY (campaign, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX entries_steps_by_campaign ON entries (campaign, sequence)
    WHERE campaign IS NOT NULL AND kind <> 'draw';
