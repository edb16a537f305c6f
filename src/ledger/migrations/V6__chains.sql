-- Version 6 of the ledger in PostgreSQL: running digests of entries, erasures of users, and
-- revocations among operators' acts. Version 5 settles beside it and moves `next_sequence` beyond
-- `chain_last`; the digest then begins anew.

ALTER TABLE tombola.cursors
    ADD COLUMN chain bytea, -- SHA-256 of the entries chain_first to chain_last
    ADD COLUMN chain_first bigint,
    ADD COLUMN chain_last bigint;

-- Erasures of users' clear values, without saying whose.
CREATE TABLE tombola.erasures (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    erased_at timestamptz NOT NULL DEFAULT now(),
    operator text NOT NULL,
    reason text NOT NULL,
    pseudonyms text NOT NULL, -- JSON list of the user's pseudonyms in the entries
    entries bigint NOT NULL, -- entries that had a clear value of the user
    wins bigint NOT NULL -- rows of wins that had one
);

-- Revocations are listed with other acts, deliveries by themselves.
DROP INDEX tombola.entries_operations_by_campaign;
DROP INDEX tombola.entries_operations_by_time;
CREATE INDEX entries_operations_by_campaign ON tombola.entries (campaign, at)
    WHERE (kind IN ('applied', 'operated', 'recovered', 'revoked')
     OR kind = 'refund' AND request_id IS NOT NULL);
CREATE INDEX entries_operations_by_time ON tombola.entries (at)
    WHERE (kind IN ('applied', 'operated', 'recovered', 'revoked')
     OR kind = 'refund' AND request_id IS NOT NULL) AND sequence >= 0;
CREATE INDEX entries_deliveries_by_campaign ON tombola.entries (campaign, at)
    WHERE kind = 'delivered';
CREATE INDEX entries_deliveries_by_time ON tombola.entries (at)
    WHERE kind = 'delivered' AND sequence >= 0;
