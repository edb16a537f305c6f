-- The ledger in PostgreSQL, version 1. Everything is in the schema `tombola`.

-- store_id: the store whose ledger this is.
-- min_reader: the lowest schema version that a program must know to work with this schema.
CREATE TABLE tombola.meta (
    key text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO tombola.meta (key, value) VALUES ('min_reader', '1');

-- How far each partition of the store is settled. The row is locked while entries are written, so
-- each entry is written once, whoever settles.
CREATE TABLE tombola.cursors (
    partition integer PRIMARY KEY,
    next_sequence bigint NOT NULL CHECK (next_sequence > 1), -- the last settled entry's number + 1
    fork text NOT NULL, -- under which the last entry was read: a replication id; '' on SQLite
    at timestamptz NOT NULL, -- when the last entry was written, by the store's clock
    format smallint NOT NULL, -- of the digest's bytes, as in entries
    digest bytea NOT NULL, -- SHA-256 of the last entry's bytes
    entries bigint NOT NULL, -- number of entries that were settled
    settled_at timestamptz NOT NULL DEFAULT now() -- by PostgreSQL's clock
);

-- Ranges of entries that were settled and that the store then lost in a rollback.
CREATE TABLE tombola.orphans (
    partition integer NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence bigint NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (partition, first_sequence)
);

CREATE TABLE tombola.entries (
    partition integer NOT NULL,
    sequence bigint NOT NULL,
    at timestamptz NOT NULL, -- by the store's clock
    kind text NOT NULL, -- applied, draw, grab ...
    campaign text, -- the campaign's id, if the entry is about one
    envelope text, -- the envelope's id, if it is about one
    user_id text, -- who drew or grabbed
    request_id text,
    format smallint NOT NULL, -- of the body; 1: JSON
    body bytea NOT NULL,
    PRIMARY KEY (partition, sequence, at)
) PARTITION BY RANGE (at);
CREATE INDEX entries_by_user ON tombola.entries (user_id, at) WHERE user_id IS NOT NULL;

-- Months that were not made ahead, such as those of a test clock.
CREATE TABLE tombola.entries_default PARTITION OF tombola.entries DEFAULT;

-- Each unit that was won.
CREATE TABLE tombola.wins (
    partition integer NOT NULL,
    sequence bigint NOT NULL, -- of the draw's entry
    number smallint NOT NULL, -- the index of the result within the draw, from 0
    at timestamptz NOT NULL,
    campaign text NOT NULL,
    version integer NOT NULL, -- of the campaign
    user_id text NOT NULL,
    request_id text NOT NULL,
    pool text NOT NULL,
    prize text NOT NULL,
    unit_id text NOT NULL,
    release_at timestamptz, -- from when the unit could be won; none for a card of a deck
    PRIMARY KEY (partition, sequence, number)
);
CREATE INDEX wins_by_user ON tombola.wins (user_id, campaign, at);
CREATE INDEX wins_by_prize ON tombola.wins (campaign, prize, at);
CREATE INDEX wins_by_unit ON tombola.wins (campaign, unit_id);

-- The prizes of each version of a campaign.
CREATE TABLE tombola.prizes (
    campaign text NOT NULL,
    version integer NOT NULL,
    prize text NOT NULL,
    name text NOT NULL,
    stock bigint NOT NULL, -- units given to the campaign up to this version
    value_currency text, -- the worth of a unit, if the campaign says it
    value_units bigint,
    value_nanos integer, -- billionths of a unit of the currency
    PRIMARY KEY (campaign, version, prize)
);

-- Makes the partition of the month that holds a moment, and moves into it what the default
-- partition has of that month. True if it was not there. Runs with the rights of its owner, so that
-- a settler needs no right to change the schema.
CREATE FUNCTION tombola.make_month(moment timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s' -- whoever reads for long is not waited for: the month is made later
AS $$
DECLARE
    month timestamp := date_trunc('month', moment AT TIME ZONE 'UTC');
    starts timestamptz := month AT TIME ZONE 'UTC';
    ends timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
    name text := 'entries_' || to_char(month, 'YYYY_MM');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tombola.make_month'));
    IF to_regclass('tombola.' || name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE tombola.%I (LIKE tombola.entries)', name);
    EXECUTE format(
        'WITH moved AS (DELETE FROM tombola.entries_default WHERE at >= %L AND at < %L RETURNING *)
         INSERT INTO tombola.%I SELECT * FROM moved', starts, ends, name);
    EXECUTE format(
        'ALTER TABLE tombola.entries ATTACH PARTITION tombola.%I FOR VALUES FROM (%L) TO (%L)',
        name, starts, ends);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION tombola.make_month(timestamptz) FROM PUBLIC;
