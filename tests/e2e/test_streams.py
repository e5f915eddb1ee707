"""As many streams at once as one gateway is for, none read before all have come: every answer is
right, and a stream costs what docs/limits.md says."""
import collections
import os
import re
import resource
import selectors
import socket
import unittest

from deployment import Deployment, await_true, memory_kib, post_bytes

LONG = os.environ.get("LOCKSTEP_LONG") == "1"
RESERVED = 200  # descriptors for everything else
PROMPTS, TOKENS = 8, 48
KIB_MAX = 32 + 32 + 16  # of one stream: libmicrohttpd, its own buffer, what both leave over
TOPOLOGY = f"""lockstep: 1
model: {os.path.abspath("model/tiny")}
limits: {{context_tokens: 1024}}
gateway: [{{streams_max: 4200, queued_max: 4200}}]
prefill: [{{pages: 1100, slots: 64}}]
decode: [{{count: 4, pages: 1100, slots: 1024, chunk_tokens: 1024}}]
"""
TEXT = re.compile(rb'"text": ?"((?:[^"\\]|\\.)*)"')


def streams_wanted():
    """What the descriptors of this process allow; the gateway raises its own limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(4096 if LONG else 768, (hard or soft) - RESERVED)


def request(number):
    return post_bytes("/v1/completions", {
        "model": "tiny", "prompt": [10 + number] * (5 + number), "stream": True,
        "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0})


class Streams(unittest.TestCase):
    def open(self, number):
        one = socket.create_connection(self.deployment.address, timeout=60)
        one.sendall(request(number % PROMPTS))
        return one

    def read_all(self, sockets):
        """The text of each stream, read as they come."""
        texts, selector = {}, selectors.DefaultSelector()
        for number, one in enumerate(sockets):
            one.setblocking(False)
            selector.register(one, selectors.EVENT_READ, number)
        parts = collections.defaultdict(bytes)
        while selector.get_map():
            ready = selector.select(60)
            self.assertTrue(ready, "streams stand still")
            for key, _ in ready:
                part = key.fileobj.recv(1 << 16)
                parts[key.data] += part
                if part:
                    continue
                selector.unregister(key.fileobj)
                key.fileobj.close()
                whole = parts.pop(key.data)
                self.assertIn(b"data: [DONE]", whole)
                texts[key.data] = b"".join(TEXT.findall(whole))
        return texts

    def completed(self):
        return self.deployment.metrics()["lockstep_completion_tokens_total"]

    def test_all_at_once(self):
        os.environ["LOCKSTEP_DEVICE"] = "symbolic"
        self.addCleanup(os.environ.pop, "LOCKSTEP_DEVICE")
        count = streams_wanted()
        with Deployment(TOPOLOGY) as self.deployment:
            alone = self.read_all([self.open(number) for number in range(PROMPTS)])
            pid = self.deployment.pid("gateway/0")
            idle = memory_kib(pid)
            done = self.completed() + count * TOKENS
            sockets = [self.open(number) for number in range(count)]
            await_true(lambda: self.completed() >= done,
                       lambda: f"{self.completed()} of {done}")
            each = (memory_kib(pid) - idle) / count
            texts = self.read_all(sockets)
            self.assertEqual(self.deployment.pid("gateway/0"), pid)
        self.assertEqual(len(texts), count)
        for number, text in texts.items():
            self.assertEqual(text, alone[number % PROMPTS])
        print(f"{count} streams at once, {each:.1f} KiB of the gateway's memory each")
        self.assertLess(each, KIB_MAX)


if __name__ == "__main__":
    unittest.main()
