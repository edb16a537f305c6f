-- What version 8 of the schema adds: the settled ledger, in the same columns as in PostgreSQL (see
-- src/ledger/migrations). Moments are microseconds since the Unix epoch. Version 7 works with it
-- and settles nothing.

CREATE TABLE cursors (
    partition INTEGER PRIMARY KEY,
    next_sequence INTEGER NOT NULL, -- the last settled entry's number + 1
    fork TEXT NOT NULL, -- '' here
    at INTEGER NOT NULL, -- when the last entry was written
    format INTEGER NOT NULL, -- of the digest's bytes
    digest BLOB NOT NULL, -- SHA-256 of the last entry's bytes
    entries INTEGER NOT NULL, -- number of entries that were settled
    settled_at INTEGER NOT NULL
) STRICT;

CREATE TABLE orphans (
    partition INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    found_at INTEGER NOT NULL,
    PRIMARY KEY (partition, first_sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE entries (
    partition INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL, -- applied, draw, grab ...
    campaign TEXT, -- the campaign's id, if the entry is about one
    envelope TEXT, -- the envelope's id, if it is about one
    user_id TEXT, -- who drew or grabbed
    request_id TEXT,
    format INTEGER NOT NULL, -- of the body
    body BLOB NOT NULL,
    number INTEGER,
    fork INTEGER,
    people TEXT, -- JSON list of the other values that stand for people in the body
    PRIMARY KEY (partition, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_by_user ON entries (user_id, at) WHERE user_id IS NOT NULL;

CREATE TABLE wins (
    partition INTEGER NOT NULL,
    sequence INTEGER NOT NULL, -- of the draw's entry
    number INTEGER NOT NULL, -- the index of the result within the draw, from 0
    at INTEGER NOT NULL,
    campaign TEXT NOT NULL,
    version INTEGER NOT NULL, -- of the campaign
    user_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    pool TEXT NOT NULL,
    prize TEXT NOT NULL,
    unit_id TEXT NOT NULL,
    release_at INTEGER, -- from when the unit could be won; none for a card of a deck
    PRIMARY KEY (partition, sequence, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX wins_by_user ON wins (user_id, campaign, at);
CREATE INDEX wins_by_prize ON wins (campaign, prize, at);
CREATE INDEX wins_by_unit ON wins (campaign, unit_id);

CREATE TABLE prizes (
    campaign TEXT NOT NULL,
    version INTEGER NOT NULL,
    prize TEXT NOT NULL,
    name TEXT NOT NULL,
    stock INTEGER NOT NULL, -- units given to the campaign up to this version
    value_currency TEXT,
    value_units INTEGER,
    value_nanos INTEGER,
    PRIMARY KEY (campaign, version, prize)
) STRICT, WITHOUT ROWID;

-- random bytes from which pseudonyms are derived; campaign '' for all other entries
CREATE TABLE salts (
    partition INTEGER NOT NULL,
    campaign TEXT NOT NULL,
    salt BLOB NOT NULL,
    PRIMARY KEY (partition, campaign)
) STRICT, WITHOUT ROWID;

CREATE TABLE quarantine (
    partition INTEGER NOT NULL,
    sequence INTEGER NOT NULL, -- the last settled entry
    found_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    alarm TEXT NOT NULL,
    detail TEXT NOT NULL,
    ended_at INTEGER,
    PRIMARY KEY (partition, sequence, alarm)
) STRICT, WITHOUT ROWID;
