"""Short requests of all kinds, 64 at once, as many as LOCKSTEP_SOAK_REQUESTS says: what every
process holds after the last is what it held after the first few."""
import collections
import os
import random
import re
import selectors
import socket
import unittest

from deployment import Deployment, await_true, memory_kib, post_bytes

REQUESTS = int(os.environ.get("LOCKSTEP_SOAK_REQUESTS", "8000"))
FIRST = max(REQUESTS // 10, 3000)  # by then every table of fixed size was touched
AT_ONCE = 64
SILENCE_S = 60
VARIANTS = 4096  # requests that differ; their prompts have twice as many pages as a group
PREFIXES, PREFIX_TOKENS = 8, 256  # one of these begins every other prompt: a page
TAIL_TOKENS = (1, 8, 40, 300, 500)
REFUSED_MAX = 8  # messages that an actor may refuse for each client that left, as they cross ABORT
KIB_MAX, PART_MAX = 2048, 0.01  # how far what is counted in KiB may grow
MEMORY = ("VmRSS", "VmData")
FILES = "KiB of files"
RESENT = ("gaps", "duplicates")  # frames that come twice when a busy machine acknowledges late
ENDS = ("stop", "length", "aborted")  # of all requests but those that are refused
INSTANCE = re.compile(r"(?m)^(.* (\S+) > scheduler/0 instance\{.*pages=(\d+), pages_free=(\d+), "
                      r"slots=(\d+), slots_free=(\d+), .*)$")
# Kinds of requests: how many of a hundred, what their body has beside a prompt, when their client
# leaves, and the status that it hears.
Kind = collections.namedtuple("Kind", "share options leaves_after status")
NEVER = 1 << 30
KINDS = {
    "whole": Kind(44, {"max_tokens": 4}, NEVER, b"200"),
    "streamed": Kind(44, {"max_tokens": 8, "stream": True}, NEVER, b"200"),
    "gone at once": Kind(2, {"max_tokens": 250, "ignore_eos": True}, 0, None),
    "gone in a stream": Kind(4, {"max_tokens": 250, "ignore_eos": True, "stream": True}, 1, None),
    "wrong": Kind(3, {"temperature": 99}, NEVER, b"400"),
    "too long": Kind(3, {"max_tokens": 4000}, NEVER, b"400"),
}


def variants():
    """As many (kind, bytes of a request); every other prompt has a beginning that many have."""
    chance = random.Random(4)

    def tokens(count):
        return [chance.randrange(5, 400) for _ in range(count)]

    prefixes = [tokens(PREFIX_TOKENS) for _ in range(PREFIXES)]
    weights = [kind.share for kind in KINDS.values()]
    for name in chance.choices(list(KINDS), weights, k=VARIANTS):
        prompt = chance.choice(prefixes) if chance.random() < 0.5 else []
        prompt = prompt + tokens(chance.choice(TAIL_TOKENS))
        yield name, post_bytes("/v1/completions", {"model": "tiny", "prompt": prompt,
                                                   "temperature": 0, **KINDS[name].options})


class Crowd:
    """So many clients, each with one request on a connection of its own, and then the next."""

    def __init__(self, address):
        self.address = address
        self.variants = list(variants())
        self.chance = random.Random(1)
        self.selector = selectors.DefaultSelector()
        self.ended = collections.Counter()

    def start(self):
        name, request = self.chance.choice(self.variants)
        one = socket.create_connection(self.address, timeout=SILENCE_S)
        one.sendall(request)
        if KINDS[name].leaves_after == 0:
            one.close()
            self.ended[name] += 1
            return
        one.setblocking(False)
        self.selector.register(one, selectors.EVENT_READ, [name, b""])

    def read(self, one, client):
        name, said = client
        kind = KINDS[name]
        part = one.recv(1 << 16)
        said = client[1] = said + part
        if part and said.count(b"data: ") < kind.leaves_after:
            return
        self.selector.unregister(one)
        one.close()
        if kind.status:
            assert said[9:12] == kind.status and (not kind.options.get("stream")
                                                  or b"data: [DONE]" in said), (name, said)
        self.ended[name] += 1

    def gone(self):
        """How many left before their end."""
        return sum(self.ended[name] for name, kind in KINDS.items() if not kind.status)

    def run(self, count):
        """Returns when so many more have ended."""
        while count > 0 or self.selector.get_map():
            while count > 0 and len(self.selector.get_map()) < AT_ONCE:
                self.start()
                count -= 1
            ready = self.selector.select(SILENCE_S)
            assert ready, "nothing comes any more"
            for key, _ in ready:
                self.read(key.fileobj, key.data)


def held(pid):
    """What a process holds: KiB of memory, and descriptors."""
    return {**{name: memory_kib(pid, name) for name in MEMORY},
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def grown(before, after, gone):
    """What is not as it was, in words, of {actor: {figure: number}}: memory and files may grow a
    little, and messages to requests whose clients are gone are refused, a few for each."""
    words = []
    for actor, figures in before.items():
        for name in figures.keys() - RESENT:
            at_first, at_last = figures[name], after[actor][name]
            room = {"refused": REFUSED_MAX * gone}.get(name, 0)
            if name in (*MEMORY, FILES):
                room = KIB_MAX + PART_MAX * at_first
            if at_last > at_first + room:
                words.append(f"{actor}: {name} from {at_first} to {at_last}")
    return words


def report(before, after):
    """Prints what was held."""
    for actor, figures in before.items():
        print(f"{actor:18}", *(f"{name} {at_first} to {after[actor][name]}"
                               for name, at_first in figures.items() if after[actor][name]))


class Judge(unittest.TestCase):
    """What would leak is found: a few bytes of each of a million, a descriptor, a message lost."""

    BEFORE = {"VmRSS": 20000, "VmData": 900000, "descriptors": 40, "stale": 0, "refused": 3,
              "gaps": 0}

    def judge(self, **figures):
        return grown({"gateway/0": self.BEFORE}, {"gateway/0": {**self.BEFORE, **figures}}, 10)

    def test_what_stays_is_no_growth(self):
        self.assertEqual(self.judge(VmRSS=22200, VmData=911000, descriptors=39, refused=83,
                                    gaps=9), [])

    def test_each_figure_that_grows_is_named(self):
        for figures in ({"VmRSS": 22300}, {"VmData": 912000}, {"descriptors": 41}, {"stale": 1},
                        {"refused": 84}):
            name, = figures
            word, = self.judge(**figures)
            self.assertIn(f"gateway/0: {name} from", word)


class Soak(unittest.TestCase):
    def busy(self):
        """What is not at rest, in words: requests, attempts, mail, and pages and slots taken."""
        words = [f"{row['name']}: {row['attempts']} attempts, {row['depth']} messages"
                 for row in self.deployment.ps() if row["attempts"] or row["depth"]]
        if self.deployment.metrics()["lockstep_requests_open"]:
            words.append("requests are open")
        said = self.deployment.command("tap", self.deployment.name, "--old", "--actor",
                                       "scheduler/0", "--message", "instance").stdout
        last = {leader: (line, fields) for line, leader, *fields in INSTANCE.findall(said)}
        words += [line for line, (pages, pages_free, slots, slots_free) in last.values()
                  if (pages, slots) != (pages_free, slots_free)]
        return words

    def sample(self):
        """Figures of every actor, when nothing is to do."""
        await_true(lambda: not self.busy(), lambda: "\n".join(self.busy()))
        figures = {row["name"]: {**held(row["pid"]), **row["dropped"], "life": row["incarnation"],
                                 "malformed": row["malformed"], "refused": row["refused"]}
                   for row in self.deployment.ps()}
        files = [os.path.join(folder, name) for folder, _, names in os.walk(self.deployment.folder)
                 for name in names]
        figures["all"] = {FILES: sum(os.path.getsize(path) for path in files) // 1024,
                          "processes": len(self.deployment.processes()),
                          "shared memory": len(self.deployment.new_shared_memory())}
        return figures

    def test_what_is_held_at_last_is_what_was_held_at_first(self):
        os.environ["LOCKSTEP_DEVICE"] = "symbolic"
        self.addCleanup(os.environ.pop, "LOCKSTEP_DEVICE")
        with Deployment("bench/gateway.yaml") as self.deployment:
            crowd = Crowd(self.deployment.address)
            crowd.run(FIRST)
            before, gone_before = self.sample(), crowd.gone()
            crowd.run(REQUESTS - FIRST)
            after, ends = self.sample(), self.deployment.metrics()
        report(before, after)
        print(f"{REQUESTS} requests, the figures are from the {FIRST}th on: {dict(crowd.ended)}")
        self.assertEqual(grown(before, after, crowd.gone() - gone_before), [])
        by_end = {name: ends.pop(f'lockstep_requests_total{{end="{name}"}}') for name in ENDS}
        self.assertGreater(by_end["aborted"], crowd.gone() / 8)
        self.assertEqual(sum(by_end.values()) + ends["lockstep_requests_refused_total"], REQUESTS)
        self.assertGreater(ends["lockstep_cached_tokens_total"], PREFIX_TOKENS * REQUESTS / 100)


if __name__ == "__main__":
    unittest.main()
