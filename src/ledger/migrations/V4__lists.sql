-- Version 4 of the ledger in PostgreSQL: indexes for lists, newest first. Versions before work with
-- them. While they are made, settling waits and draws go on.

-- Indexes by time alone have a condition that every row fulfils and that only lists without another
-- filter name. Otherwise PostgreSQL would take them for the list of one campaign, which it expects
-- everywhere in the table, and read a year of other campaigns first.

CREATE INDEX entries_draws_by_campaign ON tombola.entries (campaign, at) WHERE kind = 'draw';
CREATE INDEX entries_draws_by_time ON tombola.entries (at)
    WHERE kind = 'draw' AND sequence >= 0;

CREATE INDEX entries_envelopes_by_id ON tombola.entries (envelope, at)
    WHERE envelope IS NOT NULL;
CREATE INDEX entries_envelopes_by_time ON tombola.entries (at)
    WHERE envelope IS NOT NULL AND sequence >= 0;
-- Creations and refunds are few among grabs.
CREATE INDEX entries_envelopes_by_kind ON tombola.entries (kind, at)
    WHERE envelope IS NOT NULL AND kind <> 'grab';

CREATE INDEX entries_operations_by_campaign ON tombola.entries (campaign, at)
    WHERE (kind IN ('applied', 'operated', 'recovered')
     OR kind = 'refund' AND request_id IS NOT NULL);
CREATE INDEX entries_operations_by_time ON tombola.entries (at)
    WHERE (kind IN ('applied', 'operated', 'recovered')
     OR kind = 'refund' AND request_id IS NOT NULL) AND sequence >= 0;

CREATE INDEX wins_by_time ON tombola.wins (at) WHERE sequence >= 0;
-- For questions of people about a span of time.
CREATE INDEX wins_by_span ON tombola.wins USING brin (at);
CREATE INDEX wins_by_campaign ON tombola.wins (campaign, at);
-- By time within the user, whatever the campaign.
DROP INDEX tombola.wins_by_user;
CREATE INDEX wins_by_user ON tombola.wins (user_id, at);
