"""What an operator sees and ends: `lockstep abort`, and the admin listener behind it."""
import json
import os
import signal
import threading
import time
import unittest
import urllib.error
import urllib.request

from deployment import Deployment, await_true, stream_events

TOPOLOGY = "topology/examples/default.yaml"
EXIT_FAILED, EXIT_USAGE, EXIT_NOT_RUNNING = 1, 2, 5
LONG = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "ignore_eos": True,
        "max_tokens": 6000}


def setUpModule():
    global deployment, admin
    deployment = unittest.enterModuleContext(Deployment(TOPOLOGY))
    admin = deployment.admin_url()


def post(url, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=60)


def ask(**options):
    return post(deployment.url + "/v1/chat/completions", {**LONG, **options})


def get(path):
    with urllib.request.urlopen(admin + path, timeout=60) as answer:
        return answer.status, answer.read().decode()


def requests():
    return json.loads(get("/requests")[1])["requests"]


def one_request():
    """The only open request, as soon as there is one."""
    return await_true(requests, "no request came")[0]


class Abort(unittest.TestCase):
    def setUp(self):  # an answer that was read is not yet one that is forgotten
        await_true(lambda: not requests(), "a request is left")

    def tearDown(self):
        await_true(lambda: not requests(), "a request is left")
        with ask(messages=[{"role": "user", "content": "What is 4 times 2?"}], max_tokens=40,
                 ignore_eos=False) as answer:
            self.assertEqual(json.load(answer)["choices"][0]["message"]["content"], "4 * 2 = 8.")

    def test_a_stream_ends_with_an_error_that_says_so(self):
        with ask(stream=True) as answer:
            stream = stream_events(answer)
            first = next(stream)
            run = deployment.command("abort", deployment.name, first["id"])
            self.assertEqual(run.stdout, first["id"] + " is ended\n")
            last = list(stream)[-1]
        self.assertEqual(last["error"]["message"], "ended by the operator")

    def test_a_whole_answer_is_a_503_that_says_so(self):
        refusal = []

        def wait():
            try:
                ask().close()
            except urllib.error.HTTPError as error:
                refusal.append((error.code, json.load(error)["error"]["message"]))

        waiting = threading.Thread(target=wait)
        waiting.start()
        deployment.command("abort", one_request()["id"])
        waiting.join(timeout=60)
        self.assertEqual(refusal, [(503, "ended by the operator")])

    def test_a_request_that_waits_for_a_stopped_rank(self):
        rank = deployment.pid("prefill/0/rank/0")
        os.kill(rank, signal.SIGSTOP)
        try:
            waiting = threading.Thread(target=self.assertRaises, args=(urllib.error.HTTPError, ask))
            waiting.start()
            request = one_request()
            self.assertEqual((request["state"], request["tokens"]), ("waiting", 0))
            deployment.command("abort", request["id"])
            waiting.join(timeout=60)
            self.assertFalse(waiting.is_alive())
        finally:
            os.kill(rank, signal.SIGCONT)

    def test_what_is_not_there(self):
        with ask(stream=True) as answer:
            request = next(stream_events(answer))["id"]
            run = deployment.command("abort", deployment.name, "chatcmpl-none", check=False)
            self.assertEqual(run.returncode, EXIT_FAILED)
            self.assertIn("open is " + request, run.stdout)  # what could have been meant
        self.assertEqual(deployment.command("abort", check=False).returncode, EXIT_USAGE)
        run = deployment.command("abort", "nobody", "chatcmpl-none", check=False)
        self.assertEqual(run.returncode, EXIT_NOT_RUNNING)


class Listener(unittest.TestCase):
    def test_it_lists_what_is_open(self):
        started = time.monotonic()
        with ask(stream=True) as answer:
            first = next(stream_events(answer))
            [request] = requests()
            self.assertEqual(request["id"], first["id"])
            self.assertEqual(request["state"], "answering")
            self.assertGreater(request["prompt_tokens"], 2)
            self.assertGreater(request["tokens"], 0)
            self.assertLess(request["age_ms"], 1000 * (time.monotonic() - started) + 1)
        await_true(lambda: not requests(), "a request is left")

    def test_what_clients_may_ask_is_here_too(self):
        self.assertEqual(get("/health")[0], 200)
        self.assertEqual(get("/ready")[0], 200)
        self.assertIn("lockstep_requests_open", get("/metrics")[1])

    def test_what_is_refused(self):
        for body in (b"", b"{", b"[]", b'{"id": 7}', b'{"id": ""}',
                     b'{"id": "' + b"x" * 9999 + b'"}'):
            with self.subTest(body=body[:20]), self.assertRaises(urllib.error.HTTPError) as refusal:
                post(admin + "/abort", body)
            self.assertEqual(refusal.exception.code, 400)
            self.assertEqual(json.load(refusal.exception)["error"]["param"], "id")
        with self.assertRaises(urllib.error.HTTPError) as refusal:
            post(admin + "/abort", {"id": "chatcmpl-\"\n"})
        self.assertEqual(refusal.exception.code, 404)
        for url in (admin + "/v1/models", admin + "/abort", deployment.url + "/requests"):
            with self.subTest(url=url), self.assertRaises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(url, timeout=60)
            self.assertEqual(refusal.exception.code, 404)
        with self.assertRaises(urllib.error.HTTPError) as refusal:  # apart from the clients' port
            post(deployment.url + "/abort", {"id": "x"})
        self.assertEqual(refusal.exception.code, 404)


if __name__ == "__main__":
    unittest.main()
