-- What version 2 of the schema adds: envelopes. Amounts are minor units of the envelope's currency, packets count from 1.

ALTER TABLE ledger ADD COLUMN envelope TEXT; -- the id of the envelope that the entry is about; its campaign is 0 then

CREATE TABLE envelopes (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    currency TEXT NOT NULL,
    total_minor INTEGER NOT NULL,
    record TEXT NOT NULL, -- JSON, see src/store/rules/envelope/state.rs
    packets_grabbed INTEGER NOT NULL,
    grabbed_minor INTEGER NOT NULL,
    last_grab INTEGER,
    created_sequence INTEGER NOT NULL, -- ledger entries
    refund_sequence INTEGER,
    refund_due INTEGER, -- none once it is empty or refunded
    settled INTEGER -- since when it is; 0 once it is being removed
) STRICT;
CREATE INDEX envelopes_by_refund ON envelopes (refund_due) WHERE refund_due IS NOT NULL;
CREATE INDEX envelopes_by_settlement ON envelopes (settled) WHERE settled IS NOT NULL;

-- packets that wait to be grabbed
CREATE TABLE packets (
    envelope INTEGER NOT NULL,
    number INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    release INTEGER NOT NULL,
    PRIMARY KEY (envelope, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE grabs (
    envelope INTEGER NOT NULL,
    user TEXT NOT NULL,
    packet INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    at INTEGER NOT NULL,
    sequence INTEGER NOT NULL, -- of the ledger entry
    PRIMARY KEY (envelope, user)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX grabs_by_packet ON grabs (envelope, packet);

-- who may grab, where not everyone may
CREATE TABLE envelope_users (
    envelope INTEGER NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (envelope, user)
) STRICT, WITHOUT ROWID;

-- of all envelopes ever created; amounts as decimal text, for they may pass 2^63
CREATE TABLE envelope_sums (
    currency TEXT PRIMARY KEY,
    envelopes INTEGER NOT NULL,
    open INTEGER NOT NULL,
    created_minor TEXT NOT NULL,
    grabbed_minor TEXT NOT NULL,
    waiting_minor TEXT NOT NULL,
    refunded_minor TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- ids that are not used again: the first 16 bytes of their SHA-256
CREATE TABLE removed_envelopes (
    digest BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
