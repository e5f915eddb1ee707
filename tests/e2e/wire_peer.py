"""wire_peer.py - an observer in Python, written from docs/wire.md alone: joins, asks, shows.

    wire_peer.py ENDPOINT ID [ACTOR]      ENDPOINT and ID of a monitor; ACTOR: one mailbox, else all

It needs pyzmq and msgpack and nothing of Lockstep.
"""
import json
import os
import sys
import tempfile
import time

import msgpack
import zmq

PROTOCOL = 1
HELLO, DATA, ACK, REFUSE = range(4)
WATCH, MAILBOXES = 54, 55
# Fields in order, and what a missing one means: trailing zeros and empty ones may be left out.
MAILBOX = {"actor": "", "incarnation": 0, "process": 0, "state": "", "depth": 0, "depth_max": 0,
           "oldest_us": 0, "received": 0, "refused": 0, "malformed": 0, "progress": 0}


class Refused(Exception):
    """The actor does not want us, and says why."""


class Peer:
    """One observer with a stream to one actor. Use in a `with`."""

    def __init__(self, endpoint, actor, observer=0xfe00 + os.getpid() % 256):
        self.me, self.life = observer, int(time.time())
        self.actor, self.actor_life = actor, 0
        self.sent = self.acked = self.received = 0
        self.unacknowledged = []  # (seq, id, body)
        self.up = False
        self.messages = []  # (id, fields) not yet asked for
        self.folder = tempfile.TemporaryDirectory(prefix="wire-peer-")
        self.here = f"ipc://{self.folder.name}/in.ipc"
        self.context = zmq.Context()
        self.inward = self.context.socket(zmq.PULL)
        self.inward.setsockopt(zmq.RCVHWM, 0)
        self.inward.bind(self.here)
        self.outward = self.context.socket(zmq.PUSH)
        self.outward.setsockopt(zmq.LINGER, 0)
        self.outward.setsockopt(zmq.SNDHWM, 0)
        self.outward.connect(endpoint)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.inward.close()
        self.outward.close()
        self.context.term()
        self.folder.cleanup()

    def frame(self, kind, *rest):
        return [PROTOCOL, kind, self.me, self.life, self.actor, self.actor_life, *rest]

    def put(self, *frame):
        self.outward.send(msgpack.packb(self.frame(*frame)), zmq.DONTWAIT)

    def hello(self, asks):
        self.put(HELLO, asks, 0, 0, 0, 0, self.received, 64, 1 << 20, "wire_peer", self.here)

    def take(self, timeout_ms):
        """Handles one frame; False if none came in time."""
        if not self.inward.poll(timeout_ms):
            return False
        frame = msgpack.unpackb(self.inward.recv())
        protocol, kind, sender, life, receiver, my_life = frame[:6]
        if protocol != PROTOCOL or sender != self.actor or receiver != self.me:
            return True
        if life < self.actor_life or my_life not in (0, self.life):
            return True
        if kind == REFUSE:
            raise Refused(frame[6])
        if kind == HELLO:
            self.take_hello(life, my_life, asks=frame[6], received=frame[11])
        elif self.up and life == self.actor_life:
            self.acked = frame[6]
            self.unacknowledged = [m for m in self.unacknowledged if m[0] > self.acked]
            if kind == DATA:
                self.take_data(frame[7], frame[8])
        return True

    def take_hello(self, life, my_life, asks, received):
        if life > self.actor_life:  # a later life: both directions start again
            self.actor_life, self.received, self.sent, self.up = life, 0, 0, False
            self.unacknowledged = []
        if my_life == self.life:
            self.up = True
            for seq, ident, body in self.unacknowledged:
                if seq > received:
                    self.put(DATA, self.received, seq, [ident, body])
        if asks or my_life != self.life:
            self.hello(0 if self.up else 1)

    def take_data(self, first, pairs):
        if first > self.received + 1:
            self.hello(0)  # something was lost
            return
        for seq, (ident, body) in enumerate(zip(pairs[::2], pairs[1::2]), first):
            if seq == self.received + 1:
                self.received = seq
                self.messages.append((ident, msgpack.unpackb(body)))
        self.put(ACK, self.received)

    def join(self, patience_s=10):
        end = time.monotonic() + patience_s
        while not self.up:
            if time.monotonic() > end:
                raise TimeoutError("no HELLO came back")
            self.hello(1)
            while self.take(100) and not self.up:
                pass
        return self

    def send(self, ident, *fields):
        self.sent += 1
        message = (self.sent, ident, msgpack.packb(list(fields)))
        self.unacknowledged.append(message)
        self.put(DATA, self.received, message[0], list(message[1:]))

    def wait_for(self, ident, patience_s=10):
        end = time.monotonic() + patience_s
        while True:
            for index, (found, fields) in enumerate(self.messages):
                if found == ident:
                    del self.messages[index]
                    return fields
            if time.monotonic() > end:
                raise TimeoutError(f"message {ident} does not come")
            if not self.take(500) and self.unacknowledged:
                self.hello(1)

    def mailboxes(self, actor=""):
        self.send(WATCH, actor)
        rows, = self.wait_for(MAILBOXES) or [[]]
        return [{**MAILBOX, **dict(zip(MAILBOX, row))} for row in rows]


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with Peer(sys.argv[1], int(sys.argv[2])) as peer:
        print(json.dumps(peer.join().mailboxes(*sys.argv[3:]), indent=2))


if __name__ == "__main__":
    main()
