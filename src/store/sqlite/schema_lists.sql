-- What version 9 of the schema adds: indexes for lists of the settled ledger, newest first, as in
-- PostgreSQL (see src/ledger/migrations).

CREATE INDEX entries_draws_by_campaign ON entries (campaign, at) WHERE kind = 'draw';
CREATE INDEX entries_draws_by_time ON entries (at) WHERE kind = 'draw';

CREATE INDEX entries_envelopes_by_id ON entries (envelope, at) WHERE envelope IS NOT NULL;
CREATE INDEX entries_envelopes_by_time ON entries (at) WHERE envelope IS NOT NULL;
CREATE INDEX entries_envelopes_by_kind ON entries (kind, at) WHERE envelope IS NOT NULL;

CREATE INDEX entries_operations_by_campaign ON entries (campaign, at)
    WHERE (kind IN ('applied', 'operated', 'recovered')
     OR kind = 'refund' AND request_id IS NOT NULL);
CREATE INDEX entries_operations_by_time ON entries (at)
    WHERE (kind IN ('applied', 'operated', 'recovered')
     OR kind = 'refund' AND request_id IS NOT NULL);

CREATE INDEX wins_by_time ON wins (at);
CREATE INDEX wins_by_campaign ON wins (campaign, at);
DROP INDEX wins_by_user;
CREATE INDEX wins_by_user ON wins (user_id, at);
