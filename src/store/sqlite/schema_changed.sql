-- What version 17 of the schema adds: the log of changed rows of `users`, in order of commit, of
-- those that may not be in that table yet (see src/store/sqlite/changed.rs). Of a request that is
-- forgotten, the row is to be deleted from that table. Version 16 would not look here.

CREATE TABLE changed_users (
    no INTEGER PRIMARY KEY,
    campaign INTEGER NOT NULL,
    user TEXT NOT NULL,
    request TEXT NOT NULL, -- '' if this row remembers no draw; else sequence is its ledger entry
    sequence INTEGER,
    day INTEGER, -- from here on the user's record, as in users; draws is NULL if it is not here
    free_today INTEGER,
    paid_today INTEGER,
    draws INTEGER,
    bonus_used INTEGER,
    wins INTEGER,
    bonus TEXT,
    more TEXT
) STRICT;
INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader', '17');
