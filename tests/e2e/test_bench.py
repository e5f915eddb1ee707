"""`lockstep bench` against a deployment, and against a server of which everything is known."""
import http.server
import json
import subprocess
import threading
import unittest

from deployment import LOCKSTEP, Deployment

TOPOLOGY = "topology/examples/default.yaml"
EXIT_FAILED, EXIT_USAGE, EXIT_NOT_RUNNING = 1, 2, 5
SAMPLES = ("first_token_ms", "next_token_ms", "per_token_ms", "request_ms")


def bench(url, *options):
    return subprocess.run([LOCKSTEP, "bench", "--url", url, *options], capture_output=True,
                          text=True, check=False, timeout=120)


class Server(http.server.ThreadingHTTPServer):
    """Says `tokens` words to each request; waits until `together` requests are there at once."""

    daemon_threads = True

    def __init__(self, tokens, together=1, usage=True, fails=()):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tokens, self.usage, self.fails = tokens, usage, fails
        self.bodies, self.lock, self.open, self.open_most = [], threading.Lock(), 0, 0
        self.barrier = threading.Barrier(together)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *trouble):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(200, "application/json", b'{"data": [{"id": "known"}]}')

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            number = len(server.bodies)
            server.bodies.append(body)
            server.open += 1
            server.open_most = max(server.open_most, server.open)
        if number > 0:  # the first one is alone
            server.barrier.wait(timeout=60)
        self.answer(number, len(body["prompt"].split()))
        with server.lock:
            server.open -= 1

    def answer(self, number, words):
        events = [{"choices": [{"text": f"word{i} "}]} for i in range(self.server.tokens)]
        if self.server.usage:
            events.append({"choices": [], "usage": {
                "prompt_tokens": 2 * words, "completion_tokens": self.server.tokens,
                "prompt_tokens_details": {"cached_tokens": 1}}})
        if number in self.server.fails:
            self.send(503, "application/json", b'{"error": {"message": "too busy"}}')
        else:
            stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            self.send(200, "text/event-stream", stream.encode() + b"data: [DONE]\n\n")


class Known(unittest.TestCase):
    def test_all_that_is_known_is_found(self):
        with Server(tokens=5, together=3) as server:
            run = bench(server.url, "--json", "--sessions", "3", "--requests", "12",
                        "--prompt-tokens", "40", "--max-tokens", "5")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        found = json.loads(run.stdout)
        self.assertEqual(found["model"], "known")
        self.assertEqual((found["answered"], found["failed"]), (12, 0))
        self.assertEqual(found["output_tokens"], 12 * 5)
        self.assertEqual(found["prompt_tokens"], 12 * 40)  # a word has two tokens there
        self.assertEqual(found["cached_tokens"], 12)
        self.assertEqual([found[name]["count"] for name in SAMPLES], [12, 12 * 4, 12, 12])
        self.assertFalse(found["counted_by_events"])
        self.assertEqual(server.open_most, 3)
        self.assertEqual(len({body["prompt"] for body in server.bodies}), 13)
        self.assertTrue(all(body["stream"] and body["max_tokens"] == 5
                            for body in server.bodies[1:]))
        for name in SAMPLES:
            self.assertLessEqual(found[name]["p50"], found[name]["p99"])
            self.assertLessEqual(found[name]["p99"], found[name]["max"])
        self.assertLessEqual(found["request_ms"]["max"], 1000 * found["wall_s"] + 1)

    def test_a_seed_makes_the_same_prompts(self):
        prompts = []
        for seed in ("7", "7", "8"):
            with Server(tokens=1) as server:
                bench(server.url, "--sessions", "1", "--requests", "4", "--seed", seed)
            prompts.append([body["prompt"] for body in server.bodies])
        self.assertEqual(prompts[0], prompts[1])
        self.assertNotEqual(prompts[0], prompts[2])

    def test_failures_are_counted_and_told(self):
        with Server(tokens=2, fails={2, 3}) as server:
            run = bench(server.url, "--json", "--sessions", "2", "--requests", "6")
        found = json.loads(run.stdout)
        self.assertEqual((found["answered"], found["failed"]), (4, 2))
        self.assertEqual(found["error"], "too busy")
        self.assertEqual(run.returncode, EXIT_FAILED)

    def test_a_server_that_never_answers_well_is_not_measured(self):
        with Server(tokens=2, fails={0}) as server:
            run = bench(server.url)
        self.assertEqual(run.returncode, EXIT_FAILED)
        self.assertIn("too busy", run.stderr)

    def test_without_usage_events_are_counted(self):
        with Server(tokens=3, usage=False) as server:
            run = bench(server.url, "--json", "--sessions", "1", "--requests", "2")
        found = json.loads(run.stdout)
        self.assertTrue(found["counted_by_events"])
        self.assertEqual(found["output_tokens"], 6)

    def test_refusals(self):
        for options in (("--sessions", "0"), ("--requests", "x"), ("--max-tokens", "-1"),
                        ("--fast",), ("one", "two")):
            with self.subTest(options=options):
                self.assertEqual(bench("http://127.0.0.1:1", *options).returncode, EXIT_USAGE)
        self.assertEqual(bench("http://127.0.0.1:1").returncode, EXIT_NOT_RUNNING)


class Real(unittest.TestCase):
    def test_a_deployment(self):
        with Deployment(TOPOLOGY) as deployment:
            run = deployment.command("bench", deployment.name, "--json", "--sessions", "4",
                                     "--requests", "8", "--prompt-tokens", "50",
                                     "--max-tokens", "7")
            found = json.loads(run.stdout)
            self.assertEqual((found["answered"], found["failed"]), (8, 0))
            self.assertEqual(found["output_tokens"], 8 * 7)
            self.assertTrue(30 * 8 < found["prompt_tokens"] < 70 * 8, found["prompt_tokens"])
            table = deployment.command("bench", "--requests", "1", "--max-tokens", "2").stdout
            for words in ("first token", "between tokens", "p99", "per second"):
                self.assertIn(words, table)


if __name__ == "__main__":
    unittest.main()
