"""Every way in which a request ends early, at every stage of its life: its client is told or gone,
and all that it held comes back. P8, P27 and T5 are reports of this kind: one abort too many, and a
server takes no more work."""
import http.client
import json
import os
import random
import signal
import socket
import threading
import unittest

from deployment import Deployment, await_true, post_bytes, stream_events

SLOTS = 2
TOPOLOGY = f"""lockstep: 1
model: {os.path.abspath("model/tiny")}
limits: {{context_tokens: 16384, request_timeout: TIMEOUT}}
gateway:
  - {{streams_max: 64}}
prefill:
  - {{pages: 256, slots: 4, chunk_tokens: 512}}
decode:
  - {{pages: 256, slots: {SLOTS}}}
"""
ANSWER = "4 * 2 = 8."
LONG = {"max_tokens": 15000, "ignore_eos": True}  # longer than whatever is done meanwhile
UNREAD_TOKENS = 3000  # with 20 alternatives each: megabytes, more than sockets hold for a reader
VERBOSE = {"logprobs": True, "top_logprobs": 20}
LONG_PROMPT = "red green blue " * 2000
ABORTS = 100


def open_deployment(timeout):
    return Deployment(TOPOLOGY.replace("TIMEOUT", timeout))


def setUpModule():
    global deployment
    deployment = unittest.enterModuleContext(open_deployment("none"))


def body(content="What is 4 times 2?", **options):
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **options}


def begin(content="What is 4 times 2?", headers={}, where=None, **options):
    """A connection on which a request was sent and nothing was read."""
    connection = http.client.HTTPConnection(*(where or deployment).address, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(body(content, **options)),
                       headers)
    return connection


def say(*arguments, **options):
    """Status and JSON of a whole answer."""
    connection = begin(*arguments, **options)
    answer = connection.getresponse()
    said = answer.status, json.load(answer)
    connection.close()
    return said


def ended(reason):
    return deployment.metrics()[f'lockstep_requests_total{{end="{reason}"}}']


def attempts(prefix):
    """How many live at the actors whose name begins so."""
    return sum(row["attempts"] for row in deployment.ps() if row["name"].startswith(prefix))


class Case(unittest.TestCase):
    def setUp(self):
        self.before = {reason: ended(reason) for reason in ("aborted", "stop_string", "deadline")}

    def tearDown(self):
        """Nothing is held anywhere, and the next one is served."""
        await_true(lambda: deployment.metrics()["lockstep_requests_open"] + attempts("") == 0,
                   lambda: f"left: {[row for row in deployment.ps() if row['attempts']]}")
        status, answer = say()
        self.assertEqual((status, answer["choices"][0]["message"]["content"]), (200, ANSWER))

    def expect(self, reason, count):
        await_true(lambda: ended(reason) == self.before[reason] + count,
                   lambda: f"{reason}: {ended(reason) - self.before[reason]}, not {count}")

    def fill_slots(self):
        """Streams that hold all slots of decode."""
        running = [begin(stream=True, **LONG) for _ in range(SLOTS)]
        for connection in running:
            self.assertEqual(connection.getresponse().status, 200)
            self.addCleanup(connection.close)
        await_true(lambda: attempts("decode/") == SLOTS, "they do not run")
        return running


class ClientGone(Case):
    def test_while_it_streams(self):
        connection = begin(stream=True, **LONG)
        connection.getresponse().read(2000)
        connection.close()
        self.expect("aborted", 1)

    def test_while_it_waits_for_a_whole_answer(self):
        connection = begin(**LONG)
        await_true(lambda: attempts("decode/"), "it does not run")
        connection.close()
        self.expect("aborted", 1)

    def test_while_its_prompt_is_read(self):
        connection = begin(LONG_PROMPT)
        await_true(lambda: attempts("prefill/"), "it is not read")
        connection.close()
        self.expect("aborted", 1)

    def test_while_it_is_queued(self):
        running = self.fill_slots()
        waiting = [begin(**LONG) for _ in range(3)]
        # On a slow machine one more is the gateway's, which asks what /ready is to say.
        await_true(lambda: attempts("prefill/") >= 3, "they do not wait")
        for connection in waiting:
            connection.close()
        self.expect("aborted", 3)
        await_true(lambda: attempts("prefill/") <= 1, "they are still queued")
        self.assertEqual(attempts("decode/"), SLOTS)
        for connection in running:
            connection.close()
        self.expect("aborted", 3 + SLOTS)

    def test_while_nobody_reads(self):
        """Its connection is suspended, and libmicrohttpd does not look at it."""
        produced = deployment.metrics()["lockstep_completion_tokens_total"]
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(deployment.address)
            reader.sendall(post_bytes("/v1/chat/completions",
                                      body(stream=True, **LONG, **VERBOSE)))
            await_true(lambda: deployment.metrics()["lockstep_completion_tokens_total"] >=
                       produced + UNREAD_TOKENS, "nothing is said")
            self.assertEqual(attempts("decode/"), 1)
        self.expect("aborted", 1)

    def test_at_any_instant_of_many(self):
        """At stages that a seed draws, many at once, so that aborts cross everything else."""
        draw = random.Random(4)
        gone = []

        def come_and_go(wait_s, content, options):
            connection = begin(content, **options)
            connection.sock.settimeout(wait_s)
            try:
                connection.getresponse().read()
            except TimeoutError:
                gone.append(connection)
            connection.close()

        threads = [threading.Thread(target=come_and_go, args=(
            draw.choice((0.001, 0.01, 0.05, 0.2, 0.5)),
            draw.choice(("Hello", "What is Lockstep?", LONG_PROMPT)),
            {"stream": draw.random() < 0.5, **(LONG if draw.random() < 0.5 else {})}))
            for _ in range(ABORTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertGreater(len(gone), ABORTS / 4)

    def test_while_its_rank_stands_still(self):
        """The client is let go at once; the memory comes back when no byte of it can move."""
        rank = deployment.pid("prefill/0/rank/0")
        os.kill(rank, signal.SIGSTOP)
        try:
            connection = begin(LONG_PROMPT)
            await_true(lambda: attempts("prefill/0"), "it is not submitted")
            connection.close()
            self.expect("aborted", 1)
            self.assertEqual(attempts("prefill/0"), 1)
        finally:
            os.kill(rank, signal.SIGCONT)


class StopString(Case):
    def test_it_ends_the_work_too(self):
        for stream in (False, True):
            connection = begin("Count from 16 to 40.", stream=stream, stop=["20"], temperature=0,
                               max_tokens=8000, ignore_eos=True)
            text = connection.getresponse().read().decode()
            connection.close()
            self.assertIn('"finish_reason": "stop"', text)
            self.assertNotIn("20", json.loads(text)["choices"][0]["message"]["content"]
                             if not stream else "")
        self.expect("stop_string", 2)


class Deadline(Case):
    """Whoever does not answer, a client hears of it (P9, R10)."""

    def refused(self, said):
        status, answer = said
        self.assertEqual(status, 408)
        self.assertEqual((answer["error"]["type"], answer["error"]["code"]),
                         ("timeout_error", "request_timeout"))
        self.assertIn("ms", answer["error"]["message"])

    def test_of_a_whole_answer(self):
        self.refused(say(timeout_ms=200, **LONG))
        self.refused(say(LONG_PROMPT, timeout_ms=1))
        self.expect("deadline", 2)

    def test_that_a_proxy_gives(self):
        header = "x-envoy-expected-rq-timeout-ms"
        self.refused(say(headers={header: "200"}, **LONG))
        self.refused(say(headers={header: "20000"}, timeout_ms=200, **LONG))
        status, answer = say(headers={header: "soon"})
        self.assertEqual((status, answer["error"]["param"]), (400, header))

    def test_of_a_stream(self):
        connection = begin(stream=True, timeout_ms=2000, **LONG)
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        *_, last = stream_events(answer)
        connection.close()
        self.assertEqual(last["error"]["code"], "request_timeout")
        self.expect("deadline", 1)

    def test_in_the_queue(self):
        running = self.fill_slots()
        self.refused(say(timeout_ms=200))
        self.expect("deadline", 1)
        for connection in running:
            connection.close()

    def test_of_the_topology(self):
        with open_deployment("500ms") as strict:
            self.refused(say(where=strict, **LONG))
            self.refused(say(where=strict, timeout_ms=60000, **LONG))


if __name__ == "__main__":
    unittest.main()
