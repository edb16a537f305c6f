-- Version 3 of the ledger in PostgreSQL: what pseudonyms need, and contradictions. Version 2
-- settles beside it, with bodies of format 1.

-- JSON list of the other values that stand for people in the body, in its order; see
-- docs/ledger-format.md. Format 1 has them in the body.
ALTER TABLE tombola.entries ADD COLUMN people text;

-- The random bytes from which the pseudonyms of a campaign are derived, together with the master
-- key; campaign '' for all other entries of the partition.
CREATE TABLE tombola.salts (
    partition integer NOT NULL,
    campaign text NOT NULL,
    salt bytea NOT NULL,
    PRIMARY KEY (partition, campaign)
);

-- Where store and sink contradicted each other. Nothing of the partition is settled until its row
-- has an end.
CREATE TABLE tombola.quarantine (
    partition integer NOT NULL,
    sequence bigint NOT NULL, -- the last settled entry
    found_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(), -- when it was last found
    alarm text NOT NULL, -- the alarm's name: GAP, ROLLED_BACK ...
    detail text NOT NULL,
    ended_at timestamptz, -- when the partition was settled again
    PRIMARY KEY (partition, sequence, alarm)
);

-- What happened, in whichever form the body is: see docs/ledger-format.md.
CREATE FUNCTION tombola.what(format smallint, body bytea) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE format
    WHEN 1 THEN convert_from(body, 'UTF8')::jsonb
    ELSE convert_from(body, 'UTF8')::jsonb -> 'body'
END;
