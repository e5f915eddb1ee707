"""More clients than a small gateway has room for, some that leave, and one that never reads."""
import http.client
import json
import os
import socket
import unittest
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from deployment import Deployment, await_true, post_bytes, stream_events

STREAMS_MAX, SLOTS = 6, 2
TOPOLOGY = f"""lockstep: 1
model: {os.path.abspath("model/tiny")}
limits: {{context_tokens: 8192}}
gateway:
  - {{streams_max: {STREAMS_MAX}}}
prefill:
  - {{pages: 256}}
decode:
  - {{pages: 256, slots: {SLOTS}}}
"""
ANSWER = "4 * 2 = 8."
LONG = {"stream": True, "max_tokens": 7000, "ignore_eos": True}
UNREAD_TOKENS = 3000  # with 20 alternatives each: megabytes, more than sockets hold for a reader
VERBOSE = {"max_tokens": UNREAD_TOKENS, "ignore_eos": True, "logprobs": True, "top_logprobs": 20}


def setUpModule():
    global deployment
    deployment = unittest.enterModuleContext(Deployment(TOPOLOGY))


def request(content="What is 4 times 2?", **options):
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **options}


def open_request(**options):
    connection = http.client.HTTPConnection(*deployment.address, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(request(**options)))
    return connection


def metric(name):
    return deployment.metrics()[name]


def await_metric(name, value):
    await_true(lambda: metric(name) == value, lambda: f"{name}: {metric(name)}, not {value}")


def ask():
    connection = open_request()
    answer = connection.getresponse()
    text = json.load(answer)["choices"][0]["message"]["content"]
    connection.close()
    return text


class Crowd(unittest.TestCase):
    def setUp(self):
        await_metric("lockstep_requests_open", 0)

    def test_one_too_many_is_told_when_to_come_back(self):
        crowd = [open_request(**LONG) for _ in range(STREAMS_MAX)]
        await_metric("lockstep_requests_open", STREAMS_MAX)
        late = open_request()
        answer = late.getresponse()
        self.assertEqual(answer.status, 429)
        self.assertGreaterEqual(int(answer.getheader("Retry-After")), 1)
        error = json.load(answer)["error"]
        self.assertEqual(error["type"], "overloaded_error")
        self.assertTrue(error["message"])
        late.close()
        for connection in crowd:
            connection.close()
        await_metric("lockstep_requests_open", 0)
        self.assertEqual(ask(), ANSWER)

    def test_who_leaves_in_the_queue_makes_room(self):
        running = [open_request(**LONG) for _ in range(SLOTS)]
        for connection in running:
            self.assertEqual(connection.getresponse().status, 200)  # they hold all slots now
        waiting = [open_request(**LONG) for _ in range(STREAMS_MAX - SLOTS)]
        await_metric("lockstep_requests_open", STREAMS_MAX)
        for connection in waiting:
            connection.close()
        await_metric("lockstep_requests_open", SLOTS)
        last = open_request()
        await_metric("lockstep_requests_open", SLOTS + 1)
        for connection in running:
            connection.close()
        self.assertEqual(json.load(last.getresponse())["choices"][0]["message"]["content"], ANSWER)
        last.close()

    def test_a_client_that_does_not_read_delays_nobody(self):
        quick = open_request(**VERBOSE)
        whole = json.load(quick.getresponse())["choices"][0]["logprobs"]["content"]
        quick.close()
        before = metric("lockstep_completion_tokens_total")
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(deployment.address)
            reader.sendall(post_bytes("/v1/chat/completions", request(stream=True, **VERBOSE)))
            await_metric("lockstep_completion_tokens_total", before + UNREAD_TOKENS)
            self.assertEqual(metric("lockstep_requests_open"), 1)  # its end waits for its reader
            self.assertEqual(ask(), ANSWER)
            reader.settimeout(60)
            with reader.makefile("rb") as file:
                *chunks, done = stream_events(file)
        self.assertIsNone(done)
        tokens = [token for chunk in chunks for choice in chunk["choices"]
                  for token in (choice["logprobs"] or {"content": []})["content"]]
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(tokens, whole)

    def test_prometheus_understands_the_metrics(self):
        """As Prometheus' own parser reads them, and by the rules of `promtool check metrics`."""
        self.assertEqual(ask(), ANSWER)
        for url in (deployment.url, deployment.admin_url()):
            with urllib.request.urlopen(url + "/metrics", timeout=60) as answer:
                self.assertIn("version=0.0.4", answer.headers["Content-Type"])
                families = list(text_string_to_metric_families(answer.read().decode()))
            self.assertGreater(len(families), 10)
            self.assertEqual(len({family.name for family in families}), len(families))
            for family in families:
                with self.subTest(metric=family.name):
                    self.check_family(family)

    def check_family(self, family):
        self.assertRegex(family.name, "^lockstep_[a-z][a-z0-9_]*$")
        self.assertGreater(len(family.documentation.split()), 2)
        self.assertIn(family.type, ("counter", "gauge", "histogram"))
        self.assertTrue(family.samples)
        self.assertNotRegex(family.name, "_(ms|us|millis|minutes|kb|mb)$")  # base units
        samples = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        self.assertEqual(len(set(samples)), len(samples))
        if family.type == "counter":
            self.assertTrue(all(sample.name.endswith("_total") for sample in family.samples))
        if family.type == "histogram":
            buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
            self.assertEqual(buckets[-1].labels["le"], "+Inf")
            values = [sample.value for sample in buckets]
            self.assertEqual(values, sorted(values))
            count = next(sample for sample in family.samples if sample.name.endswith("_count"))
            self.assertEqual(count.value, values[-1])


if __name__ == "__main__":
    unittest.main()
