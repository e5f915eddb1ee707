"""A peer that lies, floods, and never reads: nothing stops, nothing grows, all is counted.

It speaks to every actor of a deployment at once, over the actors' own sockets, while clients ask.
"""
import glob
import itertools
import os
import random
import unittest

import msgpack
import zmq

from deployment import Deployment, await_true, memory_kib
from test_faults import QUESTIONS, Load, ask
from wire_peer import ACK, DATA, HELLO, PROTOCOL, REFUSE, WATCH, Peer

TOPOLOGY = os.environ.get("LOCKSTEP_TOPOLOGY", "topology/examples/tp2.yaml")
OBSERVERS = 0xfe00
EXITED, STOP, KILL, ABORT, STEP_DONE = 1, 3, 4, 18, 39
ROUNDS = 30  # twice
FULL_MIB = 200  # buffers of one process may have filled so far after the first time,
GROWN_MIB = 24  # and grow no more in the second
IDS_MAX = 70
LARGE = b"\xc0" * (1 << 20)


def rss_mib(pid):
    return memory_kib(pid) / 1024


class Liar:
    """Frames of all kinds towards one actor, in the names of all others."""

    def __init__(self, context, endpoint, me, actors, chance):
        self.context, self.endpoint, self.me, self.chance = context, endpoint, me, chance
        self.actors = [ident for ident in range(actors) if ident != me]
        self.socket = self.connect()

    def connect(self):
        socket = self.context.socket(zmq.PUSH)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 1000)
        socket.connect(self.endpoint)
        return socket

    def put_bytes(self, frame):
        try:
            self.socket.send(frame, zmq.DONTWAIT)
        except zmq.Again:
            pass  # it reads no faster

    def put(self, *frame):
        self.put_bytes(msgpack.packb(list(frame)))

    def head(self, kind, sender, life, its_life):
        return PROTOCOL, kind, sender, life, self.me, its_life

    def message(self, sender, ident, *fields, life=1, its_life=1, seq=1):
        self.put(*self.head(DATA, sender, life, its_life), 0, seq,
                 [ident, msgpack.packb(list(fields))])

    def lie(self):
        """One of each: who it is, which life, what was said, what came, and what it is told."""
        chance = self.chance
        sender = chance.choice(self.actors)
        life = chance.choice((1, 2, 3, 0xffffffff))
        seq = chance.choice((1, 2, 3, 40, 1 << 60))
        self.put(*self.head(HELLO, sender, life, chance.choice((0, 1, 2))), 1, 0, 0, 0, 0,
                 chance.choice((0, 5, 1 << 63)), 0, 0, "liar", "ipc:///nowhere")
        self.put(*self.head(ACK, sender, life, 1), chance.choice((0, 10, 1 << 62)))
        self.put(*self.head(REFUSE, sender, life, 1), "go away")
        self.message(0, EXITED, sender, life, 2, life=life, seq=seq)
        self.message(0, STOP, 0, life=life, seq=seq)
        self.message(sender, KILL, sender, 1, "liar", life=life, seq=seq)
        self.message(sender, ABORT, 1, 1, 3, life=life, seq=seq)
        self.message(sender, STEP_DONE, 1, 1, 0, 0, 0, [], [], "", life=life, seq=seq)
        self.message(sender, chance.randrange(IDS_MAX), 1, 1, 1, life=life, seq=seq)

    def flood(self):
        """Far more than anybody may have unacknowledged, in large and in many small messages."""
        observer = OBSERVERS + self.chance.randrange(256)
        self.put(*self.head(HELLO, observer, 1, 1), 0, 0, 0, 0, 0, 0, 64, 1 << 20, "liar", "")
        self.put(*self.head(DATA, observer, 1, 1), 0, 1, [WATCH, LARGE] * 8)
        self.put(*self.head(DATA, observer, 1, 1), 0, 1, [WATCH, b"\x91\xa0"] * 5000)
        self.put(*self.head(DATA, self.chance.choice(self.actors), 1, 1), 0, 1, [ABORT, LARGE] * 8)
        self.put_bytes(self.chance.randbytes(64))

    def come_and_go(self):
        for socket in [self.connect() for _ in range(4)]:
            socket.send(b"\x90", zmq.DONTWAIT)
            socket.close()


class Hostile(unittest.TestCase):
    def setUp(self):
        self.context = zmq.Context()
        self.addCleanup(self.context.term)

    def liars(self, deployment, rows):
        folder = os.path.dirname(glob.glob(f"{deployment.folder}/**/monitor.0.ipc",
                                           recursive=True)[0])
        for ident, row in enumerate(rows):
            path = os.path.join(folder, row["name"].replace("/", ".") + ".ipc")
            liar = Liar(self.context, f"ipc://{path}", ident, len(rows), random.Random(ident))
            self.addCleanup(liar.socket.close)
            yield liar

    def bother(self, deployment, liars, load):
        """All that a liar does, to all, until clients were served once more and nothing waits."""
        for turn, liar in itertools.product(range(ROUNDS), liars):
            liar.lie()
            if turn % 4 == 0:
                liar.flood()
                liar.come_and_go()
        done = load.answered
        await_true(lambda: load.answered > done or load.failed, "clients hang")
        await_true(lambda: all(row["depth"] < 10 for row in deployment.ps()), "mail piles up")

    def test_lies_stop_nothing_and_nothing_grows(self):
        with Deployment(TOPOLOGY) as deployment:
            alone = {question: ask(deployment.url, question) for question in QUESTIONS}
            with Load(deployment.url, alone) as load:
                rows = deployment.ps()
                pids = {row["name"]: row["pid"] for row in rows}
                liars = list(self.liars(deployment, rows))
                memory = [{name: rss_mib(pid) for name, pid in pids.items()}]
                for _ in range(2):
                    self.bother(deployment, liars, load)
                    memory.append({name: rss_mib(pid) for name, pid in pids.items()})
            self.assertEqual((load.wrong, load.failed), ([], []))
            for row in deployment.ps():
                name = row["name"]
                at_first, full, at_last = (mib[name] for mib in memory)
                self.assertEqual(row["pid"], pids[name], f"{name} did not live on")
                self.assertLess(full, at_first + FULL_MIB, name)
                self.assertLess(at_last, full + GROWN_MIB, name)
                self.assertGreaterEqual(row["dropped"]["strangers"], ROUNDS, row)
                self.assertGreater(row["dropped"]["frames"], 0, row)
            self.assertEqual({question: ask(deployment.url, question) for question in QUESTIONS},
                             alone)
            for sign in ("crashed", "failed code", "PROCESS-FAILED", "TOKEN-DIFFERS"):
                self.assertNotIn(sign, deployment.log())

    def test_an_observer_that_never_acknowledges_is_turned_out(self):
        with Deployment(TOPOLOGY) as deployment:
            names = [row["name"] for row in deployment.ps()]
            socket, = glob.glob(f"{deployment.folder}/**/monitor.0.ipc", recursive=True)

            def monitor():
                return deployment.ps()[names.index("monitor/0")]

            pid = monitor()["pid"]
            mib = rss_mib(pid)
            with Peer(f"ipc://{socket}", names.index("monitor/0"), observer=0xfe07) as deaf:
                deaf.join()

                def ask_on():
                    """Reads no answer and takes none; asks for all again, which is sent again."""
                    for _ in range(500):
                        deaf.sent += 1
                        deaf.put(DATA, 0, deaf.sent, [WATCH, b"\x91\xa0"])
                    deaf.received = 0
                    deaf.hello(1)
                    return monitor()["dropped"]["unread"]

                await_true(ask_on, lambda: f"it is still served: {monitor()}")
            self.assertEqual(monitor()["pid"], pid)
            self.assertLess(rss_mib(pid), mib + 40)
            with Peer(f"ipc://{socket}", names.index("monitor/0"), observer=0xfe08) as other:
                self.assertEqual(len(other.join().mailboxes("decode/0")), 1)


if __name__ == "__main__":
    unittest.main()
