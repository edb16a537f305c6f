-- The tables of the embedded store, version 1. Moments are microseconds since the Unix epoch. Pools and prizes are numbers, their
-- places in the campaign; prize -1 stands for a deck's blanks.

CREATE TABLE meta (
    key TEXT PRIMARY KEY, -- store_id, key_fingerprint, test_clock, forgotten
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

CREATE TABLE schedules (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    horizon INTEGER NOT NULL,
    totals TEXT NOT NULL, -- JSON
    carry TEXT NOT NULL, -- JSON
    PRIMARY KEY (campaign, pool)
) STRICT, WITHOUT ROWID;

CREATE TABLE windows (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    start INTEGER NOT NULL,
    finish INTEGER NOT NULL,
    version INTEGER NOT NULL,
    state INTEGER NOT NULL, -- 0 frozen, 1 missed, 2 recalled
    PRIMARY KEY (campaign, pool, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE window_prizes (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    window INTEGER NOT NULL, -- the window's start in seconds, as in units
    prize INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    carried INTEGER NOT NULL,
    granted INTEGER NOT NULL, -- taken off stock
    placed INTEGER NOT NULL, -- of these, put into units, or taken back before that
    won INTEGER NOT NULL,
    recalled INTEGER NOT NULL,
    returned INTEGER NOT NULL,
    recall_due INTEGER NOT NULL, -- units that Recall must still take back
    withdraw INTEGER NOT NULL, -- ... and whether they leave the campaign
    PRIMARY KEY (campaign, pool, window, prize)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_recalls ON window_prizes (campaign, pool) WHERE recall_due > 0;

CREATE TABLE fills (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    window INTEGER NOT NULL, -- the window's start in seconds
    generation INTEGER NOT NULL,
    start INTEGER NOT NULL, -- units are scattered from here
    finish INTEGER NOT NULL, -- to here, the window's end
    base INTEGER NOT NULL, -- number of the first unit
    granted TEXT NOT NULL, -- JSON
    filled INTEGER NOT NULL,
    until INTEGER NOT NULL, -- every unit released before this moment is in units
    closed INTEGER NOT NULL,
    PRIMARY KEY (campaign, pool, window, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_fills ON fills (campaign, pool) WHERE closed = 0;

CREATE TABLE decks (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    round INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    dealt INTEGER NOT NULL, -- cards dealt in all rounds: the next card's score
    remaining TEXT NOT NULL, -- JSON
    short TEXT, -- JSON: what the next chunk needs of stock and did not get
    PRIMARY KEY (campaign, pool)
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
