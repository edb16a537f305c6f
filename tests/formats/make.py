#!/usr/bin/env python3
"""Makes the dumps of this directory: the data that a version of tombola writes in each store.

    tests/formats/make.py TOMBOLA NAME

runs the program TOMBOLA, which must be of the version to keep. It writes NAME.sql (the embedded
store) and NAME.redis (one line per key: its name, and its DUMP in hexadecimal). It needs
redis-server. The tests upgrade every dump and draw from it.
"""

import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
NOW = "2026-12-05T12:10:00+08:00"  # the test clock of the suite
CAMPAIGN = """
id: kept
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
consolation: {id: points, name: Points}
limits: {drawsPerUser: 20, winsPerUser: 10}
prizes: [{id: mug, stock: 31}, {id: cup, stock: 3000}]
pools:
  - {id: days, schedule: {daily: [{from: "20:00", to: "21:00", perHour: {mug: 1}}]}}
  - {id: deck, deck: {size: 100, cards: {cup: 25}, onExhausted: RESHUFFLE}}
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Service:
    def __init__(self, tombola, data, *more):
        self.tombola, self.port = tombola, free_port()
        address = f"127.0.0.1:{self.port}"
        serve = ["serve", "--listen", address, "--data", data, "--clock-start", NOW, *more]
        self.process = subprocess.Popen([tombola, *serve], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "serving on" in line:
                return
        raise SystemExit("the service does not start")

    def call(self, *words, allow_failure=False):
        server = ["--server", f"http://127.0.0.1:{self.port}"]
        done = subprocess.run([self.tombola, *server, *words], capture_output=True, text=True)
        if done.returncode and not allow_failure:
            raise SystemExit(f"{words}: {done.stderr}")

    def fill(self):
        """Writes all kinds of data: all forms of user records, changes by operators, envelopes."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(CAMPAIGN)
            file.flush()
            self.call("apply", "-f", file.name)
        time.sleep(2)
        self.call("grant", "kept", "--draws", "3", "granted")
        self.call("block", "kept", "blocked")
        for number in range(1, 4):
            for user in ["plain", "granted", "blocked"]:
                self.call("draw", "kept", user, "--request-id", f"{user}-{number}")
        self.call("draw", "kept", "plain", "--count", "5", "--request-id", "plain-many")
        envelope = ["--sender", "plain", "--total", "1000", "--currency", "CNY", "--packets", "5"]
        self.call("envelope", "create", "kept-envelope", *envelope)
        self.call("envelope", "grab", "kept-envelope", "granted")
        time.sleep(2)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def prepare(data):
    key = pathlib.Path(data, "master.key")
    key.write_text("07" * 32)
    key.chmod(0o600)


def dump_embedded(tombola, name):
    with tempfile.TemporaryDirectory() as data:
        # In a file elsewhere: the embedded store refuses a data directory with a key but no data.
        key = pathlib.Path(data, "key")
        key.write_text("07" * 32)
        key.chmod(0o600)
        service = Service(tombola, data, "--master-key", str(key))
        service.fill()
        service.stop()
        with sqlite3.connect(pathlib.Path(data, "tombola.sqlite3")) as db:
            lines = list(db.iterdump())
            for pragma in ["application_id", "user_version"]:
                value = db.execute(f"PRAGMA {pragma}").fetchone()[0]
                lines.append(f"PRAGMA {pragma} = {value};")
    (HERE / f"{name}.sql").write_text("\n".join(lines) + "\n")


def command(port, *words):
    """Sends one command to Redis. The reply is a string or a list of strings, as bytes."""
    packed = b"*%d\r\n" % len(words)
    for word in words:
        word = word if isinstance(word, bytes) else word.encode()
        packed += b"$%d\r\n%b\r\n" % (len(word), word)
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(packed)
        with link.makefile("rb") as replies:
            return receive(replies)


def receive(replies):
    line = replies.readline().rstrip()
    if line[:1] == b"$":
        value = replies.read(int(line[1:]) + 2)
        return value[:-2]
    if line[:1] == b"*":
        return [receive(replies) for _ in range(int(line[1:]))]
    return line


def dump_redis(tombola, name):
    with tempfile.TemporaryDirectory() as data:
        prepare(data)
        port = free_port()
        settings = ["--port", str(port), "--dir", data, "--save", ""]
        settings += ["--appendonly", "yes", "--appendfsync", "always"]
        redis = subprocess.Popen(["redis-server", *settings], stdout=subprocess.DEVNULL)
        time.sleep(1)
        url = f"redis://127.0.0.1:{port}"
        on_redis = ["--redis-url", url, "--partitions", "2"]
        init = [tombola, "init", "--data", data, "--clock-start", NOW, *on_redis]
        subprocess.run(init, capture_output=True)  # the first version has no such command
        service = Service(tombola, data, *on_redis)
        service.fill()
        service.stop()
        lines = []
        for key in sorted(command(port, "KEYS", "*")):
            dump = command(port, "DUMP", key).hex()
            lines.append(f"{key.decode()} {dump}")
        redis.kill()
        redis.wait()
    (HERE / f"{name}.redis").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    tombola, name = os.path.abspath(sys.argv[1]), sys.argv[2]
    dump_embedded(tombola, name)
    dump_redis(tombola, name)
