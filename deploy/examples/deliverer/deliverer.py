"""Delivers wins: follows the ledger of a Tombola server, and delivers each win exactly once.

    deliverer.py ADDRESS OUTBOX [CAMPAIGN]

For a server with TLS, TOMBOLA_TLS_CA names a file with the authority of its certificate. For one
with an access file, TOMBOLA_TOKEN_FILE names a file with the token of an identity that has `read`
and `deliver`, and also `admin` if the server has `--reflection admin`.

OUTBOX is an SQLite file. It has the cursor of the stream and every win that was seen, so the
program may be killed at any moment and started again:

1. A win and the cursor behind it are written in one transaction. The stream may send an entry
   again; the win is then there already.
2. The parcel of a win and the win's new state are written in one transaction. Replace `deliver` by
   a call of your own system, with the reference as its idempotency key.
3. Then the win is marked as delivered. To mark it again under the same reference is no error.

Wins of a test or of a small shop are delivered in order, one after the other. It needs grpcio and
grpcio-reflection, and no generated code.
"""

import os
import signal
import sqlite3
import sys
import time

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

SERVICE = "tombola.v1.LedgerService"
OPERATOR = "deliverer"
PAUSE_SECONDS = 1.0
# Errors that pass. A token may have been replaced: it is read again for each connection.
PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAUTHENTICATED,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS cursor (one INTEGER PRIMARY KEY CHECK (one = 1), text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS wins (
    campaign TEXT, unit TEXT, user TEXT NOT NULL, prize TEXT NOT NULL,
    state TEXT NOT NULL, -- new, sent, marked or revoked
    PRIMARY KEY (campaign, unit)
);
CREATE INDEX IF NOT EXISTS open_wins ON wins (state) WHERE state IN ('new', 'sent');
-- What is delivered; a real system has it elsewhere.
CREATE TABLE IF NOT EXISTS parcels (reference TEXT, user TEXT, prize TEXT);
"""


def say(*words):
    print(*words, flush=True)


class Outbox:
    """What is known of each win, in a file that survives a power cut."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=60)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.executescript(SCHEMA)

    def cursor(self):
        row = self.db.execute("SELECT text FROM cursor").fetchone()
        return row[0] if row else ""

    def note(self, response):
        """Takes over what a response says, together with its cursor."""
        with self.db:
            for win in response.entry.wins:
                if response.entry.kind == "draw":
                    self.db.execute(
                        "INSERT OR IGNORE INTO wins VALUES (?, ?, ?, ?, 'new')",
                        (win.campaign_id, win.unit_id, win.user_id, win.prize_id),
                    )
                elif response.entry.kind == "revoked":
                    self.db.execute(
                        "UPDATE wins SET state = 'revoked'"
                        " WHERE campaign = ? AND unit = ? AND state <> 'marked'",
                        (win.campaign_id, win.unit_id),
                    )
            self.db.execute("INSERT OR REPLACE INTO cursor VALUES (1, ?)", (response.cursor,))

    def open_wins(self, state):
        query = "SELECT campaign, unit, user, prize FROM wins WHERE state = ? ORDER BY rowid"
        return self.db.execute(query, (state,)).fetchall()

    def deliver(self, campaign, unit, user, prize):
        with self.db:
            parcel = (reference(campaign, unit), user, prize)
            self.db.execute("INSERT INTO parcels VALUES (?, ?, ?)", parcel)
            self._set(campaign, unit, "sent")

    def close(self, campaign, unit, state):
        with self.db:
            self._set(campaign, unit, state)

    def _set(self, campaign, unit, state):
        values = (state, campaign, unit)
        self.db.execute("UPDATE wins SET state = ? WHERE campaign = ? AND unit = ?", values)


def reference(campaign, unit):
    """The same for the same win, however often it is asked for."""
    return f"parcel/{campaign}/{unit}"


def connect(address):
    """A channel over TLS and with a token, if the environment names them."""
    authority, token = os.environ.get("TOMBOLA_TLS_CA"), os.environ.get("TOMBOLA_TOKEN_FILE")
    if not authority:
        if token:
            sys.exit("a token is sent over TLS only: set TOMBOLA_TLS_CA")
        return grpc.insecure_channel(address)
    with open(authority, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    if token:
        with open(token) as file:
            bearer = grpc.access_token_call_credentials(file.read().strip())
        credentials = grpc.composite_channel_credentials(credentials, bearer)
    return grpc.secure_channel(address, credentials)


class Ledger:
    """Calls the server's methods, which it describes by reflection."""

    def __init__(self, address):
        self.channel = connect(address)
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))
        self.methods = pool.FindServiceByName(SERVICE).methods_by_name

    def _method(self, name, kind):
        described = self.methods[name]
        request = message_factory.GetMessageClass(described.input_type)
        response = message_factory.GetMessageClass(described.output_type)
        call = kind(
            f"/{SERVICE}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call, request

    def watch(self, **fields):
        call, request = self._method("WatchEntries", self.channel.unary_stream)
        return call(request(**fields))

    def mark_delivered(self, **fields):
        call, request = self._method("MarkDelivered", self.channel.unary_unary)
        return call(request(operator=OPERATOR, **fields), timeout=10)


def reason(error):
    """The reason of a refusal, such as WIN_REVOKED; empty if there is none."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for known in (b"WIN_REVOKED", b"WIN_DELIVERED"):
                if known in value:
                    return known.decode()
    return ""


def work(ledger, outbox):
    """Delivers and marks what is open."""
    for campaign, unit, user, prize in outbox.open_wins("new"):
        outbox.deliver(campaign, unit, user, prize)
        say("sent", unit)
    for campaign, unit, _, _ in outbox.open_wins("sent"):
        state = "marked"
        try:
            ledger.mark_delivered(
                campaign_id=campaign, unit_id=unit, reference=reference(campaign, unit)
            )
        except grpc.RpcError as error:
            if reason(error) != "WIN_REVOKED":
                raise
            state = "revoked"
        say("told", unit)
        outbox.close(campaign, unit, state)
        say(state, unit)


def follow(ledger, outbox, campaign):
    """Follows the stream until it ends, and works on what it brings."""
    work(ledger, outbox)
    stream = ledger.watch(
        cursor=outbox.cursor(), campaign_id=campaign, kinds=["draw", "revoked"]
    )
    for response in stream:
        outbox.note(response)
        for win in response.entry.wins:
            say("noted", win.unit_id)
        work(ledger, outbox)


def main(address, path, campaign=""):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    outbox = Outbox(path)
    while True:
        try:
            follow(Ledger(address), outbox, campaign)
        except grpc.RpcError as error:
            if error.code() not in PASSING:
                raise
            say("waiting", error.code().name)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
