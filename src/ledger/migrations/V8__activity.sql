-- Version 8 of the ledger in PostgreSQL: what came of draws in each hour, for curves. Version 7
-- settles beside it and counts nothing.

CREATE TABLE tombola.activity (
    campaign text NOT NULL,
    hour timestamptz NOT NULL, -- its beginning, in UTC
    draws bigint NOT NULL, -- results: a draw of three counts three times
    wins bigint NOT NULL,
    consolations bigint NOT NULL,
    PRIMARY KEY (campaign, hour)
);

-- Whoever may read and write prizes may do the same with this table.
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
            'GRANT %s ON tombola.activity TO %s',
            granted.privilege,
            CASE granted.grantee
                WHEN 0 THEN 'PUBLIC'
                ELSE quote_ident(pg_get_userbyid(granted.grantee))
            END);
    END LOOP;
END
$$;
