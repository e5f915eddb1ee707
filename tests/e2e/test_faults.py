"""Every process is killed while it answers: it is named, comes back, and no answer changes."""
import http.client
import json
import os
import re
import signal
import threading
import unittest
import urllib.request

from deployment import Deployment, await_true, stream_events

TOPOLOGY = "topology/examples/default.yaml"
TP2 = "topology/examples/tp2.yaml"
CLIENTS = 4
QUESTIONS = ("What is 4 times 2?", "Count from 16 to 40.", "What is Lockstep?",
             "Repeat after me: red, green, blue, red, green, blue.")
# These die by SIGSTOP, all at once: one of each kind that others wait for.
STOPPED = ("decode/0/rank/0", "scheduler/0", "transfer/0")


def ask(url, question, on_token=None):
    """Streams one answer and returns its text; whatever goes wrong is raised."""
    body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": question}]}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    text, finish = "", None
    with urllib.request.urlopen(request, timeout=120) as answer:
        for event in filter(None, stream_events(answer)):
            if "error" in event:
                raise http.client.HTTPException(event["error"]["message"])
            choice = event["choices"][0]
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
            if on_token and text:
                on_token()
    if finish is None:
        raise http.client.HTTPException("the stream broke off")
    return text, finish


class Load:
    """Clients that ask again and again; each answer is held to what was said alone."""

    def __init__(self, url, alone):
        self.url, self.alone = url, alone
        self.begun, self.enough = threading.Event(), threading.Event()
        self.answered, self.wrong, self.failed = 0, [], []
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(CLIENTS)]

    def run(self, turn):
        while not self.enough.is_set():
            question = QUESTIONS[turn % len(QUESTIONS)]
            turn += 1
            try:
                said = ask(self.url, question, self.begun.set)
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"{question}: {error!r}")
                return
            self.answered += 1
            if said != self.alone[question]:
                self.wrong.append((question, said))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        assert self.begun.wait(60), self.failed
        return self

    def __exit__(self, *error):
        self.enough.set()
        for thread in self.threads:
            thread.join()


class Faults(unittest.TestCase):
    def test_each_process_may_die_while_it_works(self):
        with Deployment(TOPOLOGY) as deployment:
            alone = {question: ask(deployment.url, question) for question in QUESTIONS}
            for victim in deployment.ps():
                if victim["name"] != "supervisor/0":
                    with self.subTest(killed=victim["name"]):
                        self.kill(deployment, victim["name"], alone)
            said = deployment.log()
            for sign in ("crashed", "failed code", "DEGRADED", "TOKEN-DIFFERS", "POISONED"):
                self.assertNotIn(sign, said)

    def kill(self, deployment, victim, alone):
        pid = deployment.pid(victim)
        with Load(deployment.url, alone) as load:
            os.kill(pid, signal.SIGKILL)
            deployment.await_new_life(victim, pid)
            deployment.await_ready()
            self.assertEqual({question: ask(deployment.url, question) for question in QUESTIONS},
                             alone)
        self.assertEqual(load.wrong, [])
        if victim != "gateway/0":  # whose own connections end with it
            self.assertEqual(load.failed, [])
            self.assertGreaterEqual(load.answered, CLIENTS)
        self.assertIn(f"SUPERVISOR-EXITED actor={victim} incarnation=", deployment.log())

    def test_a_pool_that_nobody_can_read_is_made_anew(self):
        """Its name is gone, then its first bytes are others: seen when decode's rank comes back."""
        def pool(deployment):
            return next(name for name in deployment.new_shared_memory() if ":pool-" in name and
                        name.split("-")[-2] == str(rank))

        def unlink(path):
            os.unlink(path)

        def spoil(path):
            with open(path, "r+b") as file:
                file.write(bytes(64))

        with Deployment(TOPOLOGY) as deployment:
            alone = {question: ask(deployment.url, question) for question in QUESTIONS}
            names = [row["name"] for row in deployment.ps()]
            rank = names.index("prefill/0/rank/0")
            for harm in unlink, spoil:
                pid = deployment.pid(names[rank])
                harm(os.path.join("/dev/shm", pool(deployment)))
                os.kill(deployment.pid("decode/0/rank/0"), signal.SIGKILL)
                deployment.await_new_life(names[rank], pid)
                self.assertEqual({question: ask(deployment.url, question)
                                  for question in QUESTIONS}, alone)
            self.assertEqual(deployment.log().count("PREFILL-PAIR-REFUSED"), 2)

    def test_groups_that_die_whole_leave_no_collectives(self):
        """Nobody is left to take the name away, so whoever reaps them does."""
        ranks = "decode/0/rank/0", "decode/0/rank/1"
        with Deployment(TP2) as deployment:
            before = ask(deployment.url, QUESTIONS[0])
            count = self.segments(deployment)
            for _ in range(3):
                pids = [deployment.pid(rank) for rank in ranks]
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                for rank, pid in zip(ranks, pids):
                    deployment.await_new_life(rank, pid)
                deployment.await_ready()
                self.assertEqual(ask(deployment.url, QUESTIONS[0]), before)
            # of the epoch that died last, one may be left till the next death
            self.assertLessEqual(self.segments(deployment), count + 1)

    def segments(self, deployment):
        return sum(":group-" in name for name in deployment.new_shared_memory())

    def test_what_stands_still_is_killed_and_comes_back(self):
        with Deployment(TOPOLOGY) as deployment:
            alone = {question: ask(deployment.url, question) for question in QUESTIONS}
            pids = {name: deployment.pid(name) for name in STOPPED}
            with Load(deployment.url, alone) as load:
                for pid in pids.values():
                    os.kill(pid, signal.SIGSTOP)
                for name, pid in pids.items():
                    deployment.await_new_life(name, pid)
            self.assertEqual((load.wrong, load.failed), ([], []))
            for name in STOPPED:
                self.assertIn(f"SUPERVISOR-KILL actor={name} incarnation=", deployment.log())

    def test_a_rank_that_stands_still_in_a_step_is_named_before_it_is_killed(self):
        """T10, T15: of two ranks one is stopped under load; the other waits in a collective."""
        stopped, waiting = "decode/0/rank/1", "decode/0/rank/0"

        def hang(deployment):
            rows = {row["name"]: row for row in deployment.ps()}
            waits = [wait for wait in rows[waiting]["waits"]
                     if wait["what"].startswith("in collective")]
            blocks = [name for name, row in rows.items() if row["blocks"]]
            leader = rows["decode/0"]["waits"]
            return waits and leader and blocks == [stopped] and (waits[0], leader[0])

        def stop_in_a_step(deployment, pid):
            """Again, if no step ran just then: all may wait for decode to pull."""
            os.kill(pid, signal.SIGSTOP)
            found = next(filter(None, (hang(deployment) for _ in range(5))), None)
            if not found:
                os.kill(pid, signal.SIGCONT)
            return found

        with Deployment("topology/examples/tp2.yaml") as deployment:
            alone = {question: ask(deployment.url, question) for question in QUESTIONS}
            pid = deployment.pid(stopped)
            with Load(deployment.url, alone) as load:
                wait, leader = await_true(lambda: stop_in_a_step(deployment, pid), "not named")
                self.assertEqual(deployment.pid(stopped), pid)  # not killed yet
                said = deployment.command("ps", deployment.name).stdout
                ranks = deployment.command("ps", deployment.name, "--ranks").stdout
                deployment.await_new_life(stopped, pid)
            self.assertEqual(wait["whom"], [stopped])
            self.assertRegex(wait["what"],
                             r"^in collective \d+ of step \d+ \(layer \d+, [a-z ']+\)$")
            self.assertRegex(leader["what"], r"^for step_done \d+ since \d+ ms$")
            # The other one's answer may be there: the oldest step need not be the one it waits in.
            self.assertIn(leader["whom"], ([waiting, stopped], [stopped]))
            self.assertIn(f"{waiting} waits {wait['what']}: {stopped}\n", said)
            self.assertIn(f"{stopped} is awaited and waits for nobody\n", said)
            posted, entered, left = (int(number) for number in re.search(
                rf"(?m)^{waiting} .* (\d+) +(\d+) +(\d+)$", ranks).groups())
            self.assertEqual((posted - 1, posted - 1), (entered, left))
            self.assertRegex(deployment.log(), rf"{waiting} RANK-STEP-FAILED .* and missed 1\"")
            self.assertEqual((load.wrong, load.failed), ([], []))


if __name__ == "__main__":
    unittest.main()
