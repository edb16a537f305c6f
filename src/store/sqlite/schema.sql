-- The tables of the embedded store, version 1. Moments are microseconds since the Unix epoch. Pools and prizes are numbers, their
-- places in the campaign; prize -1 stands for a deck's blanks.

CREATE TABLE meta (
    key TEXT PRIMARY KEY, -- store_id, key_fingerprint, test_clock, forgotten, probed, min_reader, entries
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE campaigns (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    lifecycle INTEGER NOT NULL, -- 0 open, 1 paused, 2 closing, 3 closed
    touched INTEGER NOT NULL,
    paused_prizes TEXT NOT NULL, -- JSON list
    nonce BLOB NOT NULL,
    commitment TEXT NOT NULL,
    blocked_users INTEGER NOT NULL,
    users INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    consolations INTEGER NOT NULL,
    nothings INTEGER NOT NULL
) STRICT;

CREATE TABLE versions (
    campaign INTEGER NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    operator TEXT NOT NULL,
    reason TEXT NOT NULL,
    definition BLOB NOT NULL, -- tombola.v1.Campaign
    PRIMARY KEY (campaign, version)
) STRICT, WITHOUT ROWID;

-- given = remaining + waiting in queues + won + withdrawn
CREATE TABLE stock (
    campaign INTEGER NOT NULL,
    prize INTEGER NOT NULL,
    given INTEGER NOT NULL,
    remaining INTEGER NOT NULL,
    won INTEGER NOT NULL,
    withdrawn INTEGER NOT NULL,
    returned INTEGER NOT NULL,
    PRIMARY KEY (campaign, prize)
) STRICT, WITHOUT ROWID;

-- waiting: units off stock for this pool and neither won nor taken back, in units already or not
CREATE TABLE queues (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    prize INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    PRIMARY KEY (campaign, pool, prize)
) STRICT, WITHOUT ROWID;

-- the pools: sorted sets by score, the moment (or card position) from which a unit may be taken
CREATE TABLE units (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    prize INTEGER NOT NULL,
    score INTEGER NOT NULL,
    window INTEGER NOT NULL, -- a window's start in seconds, or a deck's round
    number INTEGER NOT NULL,
    PRIMARY KEY (campaign, pool, prize, score, window, number)
) STRICT, WITHOUT ROWID;

-- how far a pool is filled
CREATE TABLE pools (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    state TEXT NOT NULL, -- JSON, see src/store/rules/state.rs
    PRIMARY KEY (campaign, pool)
) STRICT, WITHOUT ROWID;

-- frozen windows; those of a pool do not overlap
CREATE TABLE windows (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    start INTEGER NOT NULL,
    finish INTEGER NOT NULL,
    is_open INTEGER NOT NULL, -- it has an open fill, or units that must be taken back
    record TEXT NOT NULL, -- JSON, see src/store/rules/state.rs
    PRIMARY KEY (campaign, pool, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX windows_by_end ON windows (campaign, pool, finish);
CREATE INDEX open_windows ON windows (campaign, pool) WHERE is_open = 1;

-- what draws won of a window
CREATE TABLE window_wins (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    window INTEGER NOT NULL, -- the window's start in seconds, as in units
    prize INTEGER NOT NULL,
    won INTEGER NOT NULL,
    PRIMARY KEY (campaign, pool, window, prize)
) STRICT, WITHOUT ROWID;

-- A user's record (request '') and, beside it on the same page, the draws that are remembered under their request ids.
CREATE TABLE users (
    campaign INTEGER NOT NULL,
    user TEXT NOT NULL,
    request TEXT NOT NULL,
    sequence INTEGER, -- of a remembered draw: its ledger entry, which has the answer; what follows is the record's
    day INTEGER,
    free_today INTEGER,
    paid_today INTEGER,
    draws INTEGER,
    bonus_used INTEGER,
    wins INTEGER,
    bonus TEXT, -- JSON
    PRIMARY KEY (campaign, user, request)
) STRICT, WITHOUT ROWID;

CREATE TABLE blocked (
    campaign INTEGER NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (campaign, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    campaign INTEGER NOT NULL,
    request TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (campaign, request)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (
    sequence INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    campaign INTEGER NOT NULL,
    body TEXT NOT NULL -- JSON, see src/store/entry.rs
) STRICT;
