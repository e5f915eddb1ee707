"""A peer in another language: docs/wire.md is enough to join, and hostile frames do no harm."""
import glob
import os
import random
import subprocess
import tempfile
import unittest

import msgpack

from deployment import BUILD, LOCKSTEP, Deployment
from wire_peer import HELLO, WATCH, Peer, Refused

TOPOLOGY = "topology/examples/default.yaml"


class MonitorAlone(unittest.TestCase):
    """Against one actor in a process of its own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-wire-")
        self.monitor = subprocess.Popen(
            [os.path.join(BUILD, "tests", "run_monitor"), self.folder.name, TOPOLOGY],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ident, self.endpoint = self.monitor.stdout.readline().split()
        self.ident = int(ident)

    def tearDown(self):
        self.monitor.stdin.close()
        self.assertEqual(self.monitor.wait(timeout=30), 0)
        self.monitor.stdout.close()
        self.assertEqual(os.listdir(self.folder.name), [])
        self.folder.cleanup()

    def peer(self, **options):
        return Peer(self.endpoint, self.ident, **options)

    def test_an_observer_reads_a_mailbox(self):
        with self.peer() as peer:
            peer.join()
            self.assertEqual(peer.mailboxes("nobody/0"), [])
            rows = {}
            while not rows.get("monitor/0", {}).get("incarnation"):  # its port has not looked yet
                rows = {row["actor"]: row for row in peer.mailboxes()}
            self.assertIn("decode/0/rank/0", rows)
            self.assertEqual(rows["decode/0"]["incarnation"], 0)
            self.assertEqual(rows["monitor/0"]["process"], self.monitor.pid)
            self.assertEqual(rows["monitor/0"]["state"], "up")
            self.assertGreater(rows["monitor/0"]["progress"], 0)

    def test_observers_are_told_apart_and_a_later_life_starts_anew(self):
        with self.peer(observer=0xfe01) as one, self.peer(observer=0xfe02) as two:
            one.join()
            two.join()
            self.assertEqual(len(one.mailboxes("decode/0")), 1)
            self.assertEqual(len(two.mailboxes("decode/0")), 1)
        with self.peer(observer=0xfe01) as again:
            again.life += 1000
            again.join()
            self.assertEqual(len(again.mailboxes("decode/0")), 1)
            self.assertEqual(again.received, 1)

    def test_messages_that_do_not_belong_are_dropped_and_the_stream_lives_on(self):
        """P8 of docs/bugs.md."""
        with self.peer() as peer:
            peer.join()
            peer.send(16, 1, 1)         # SUBMIT: not from an observer, not to a monitor
            peer.send(999, "what?")     # no such message
            peer.send(WATCH, 5)         # a number for a text
            peer.send(WATCH, "x" * 49)  # too long
            rows = peer.mailboxes("monitor/0")
            while rows[0]["malformed"] < 4:  # the figures are looked at twice a second
                rows = peer.mailboxes("monitor/0")
            self.assertEqual(rows[0]["malformed"], 4)

    def test_another_protocol_is_refused_by_name(self):
        with self.peer() as peer:
            frame = peer.frame(HELLO, 1, 0, 0, 0, 0, 0, 64, 1 << 20, "wire_peer", peer.here)
            frame[0] = 77
            with self.assertRaisesRegex(Refused, "protocol version"):
                for _ in range(50):
                    peer.outward.send(msgpack.packb(frame))
                    peer.take(100)

    def test_random_and_spoilt_frames_do_no_harm(self):
        """P2 of docs/bugs.md."""
        chance = random.Random(1)
        with self.peer() as peer:
            peer.join()
            good = msgpack.packb(peer.frame(1, 0, 99, [WATCH, msgpack.packb([""])]))
            for _ in range(3000):
                frame = bytearray(good)
                for _ in range(chance.randrange(1, 4)):
                    frame[chance.randrange(len(frame))] = chance.randrange(256)
                peer.outward.send(bytes(frame[:chance.randrange(1, len(frame) + 1)]))
            peer.outward.send(b"\xdd\xff\xff\xff\xff")
            peer.outward.send(b"")
        with self.peer(observer=0xfe09) as after:
            self.assertEqual(len(after.join().mailboxes("decode/0")), 1)


def has_command(name):
    usage = subprocess.run([LOCKSTEP], check=False, capture_output=True, text=True)
    return f"\n  {name} " in usage.stdout + usage.stderr


@unittest.skipUnless(has_command("up"), "this build starts no deployment")
class WholeDeployment(unittest.TestCase):
    def test_an_observer_sees_every_mailbox_of_a_deployment(self):
        with Deployment(TOPOLOGY) as deployment:
            names = [row["name"] for row in deployment.ps()]  # in the order of ids
            ident = names.index("monitor/0")
            socket, = glob.glob(f"{deployment.folder}/**/monitor.0.ipc", recursive=True)
            with Peer(f"ipc://{socket}", ident) as peer:
                peer.join()
                rows = []
                while not rows or not all(row["incarnation"] for row in rows):
                    rows = peer.mailboxes()
            self.assertEqual({row["actor"]: row["process"] for row in rows},
                             {row["name"]: row["pid"] for row in deployment.ps()})


if __name__ == "__main__":
    unittest.main()
