-- Version 7 of the ledger in PostgreSQL: campaigns whose data have left the store. Version 6 settles
-- beside it, and lets none leave.

-- What reads of a campaign give afterwards. A row is written before the data begin to leave, so a
-- campaign that has one may still be in the store; what the store has counts then.
CREATE TABLE tombola.removed_campaigns (
    campaign text COLLATE "C" PRIMARY KEY, -- listed in the order of the store
    partition integer NOT NULL,
    version integer NOT NULL, -- the last one
    entries bigint NOT NULL, -- number of the last entry
    at timestamptz NOT NULL, -- when this was read from the store, by its clock
    nonce bytea NOT NULL, -- of the seed
    commitment text NOT NULL,
    users bigint NOT NULL,
    wins bigint NOT NULL,
    consolations bigint NOT NULL,
    nothings bigint NOT NULL,
    record text NOT NULL -- JSON: sums by prize, decks, the last windows; see src/ledger/removed.rs
);

CREATE TABLE tombola.removed_versions (
    campaign text NOT NULL,
    version integer NOT NULL,
    at timestamptz NOT NULL,
    operator text NOT NULL,
    reason text NOT NULL,
    definition bytea NOT NULL, -- tombola.v1.Campaign
    PRIMARY KEY (campaign, version)
);

-- Shows whether a closed campaign is settled: its last entry is no draw.
CREATE INDEX entries_steps_by_campaign ON tombola.entries (campaign, sequence)
    WHERE campaign IS NOT NULL AND kind <> 'draw';

-- Whoever may read and write prizes may do the same with these tables.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT DISTINCT acl.grantee, acl.privilege_type AS privilege
        FROM pg_class, aclexplode(relacl) AS acl
        WHERE pg_class.oid = 'tombola.prizes'::regclass AND acl.grantee <> relowner
            AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE')
    LOOP
        EXECUTE format(
            'GRANT %s ON tombola.removed_campaigns, tombola.removed_versions TO %s',
            granted.privilege,
            CASE granted.grantee
                WHEN 0 THEN 'PUBLIC'
                ELSE quote_ident(pg_get_userbyid(granted.grantee))
            END);
    END LOOP;
END
$$;
