"""Groups leave and come back, and a deployment goes down, while streams are open (P20)."""
import functools
import http.client
import json
import os
import signal
import subprocess
import threading
import unittest
from urllib.parse import urlsplit

from deployment import LOCKSTEP, Deployment, await_true, stream_events

TOPOLOGY = f"""lockstep: 1
model: {os.path.abspath("model/tiny")}
limits: {{context_tokens: 8192, drain_timeout: DRAIN}}
prefill:
  - {{pages: 128, count: 2}}
decode:
  - {{pages: 128, slots: 8, count: 2}}
"""
ANSWER = "4 * 2 = 8."
LONG_TOKENS = 3000  # seconds of work, so it outlives what comes within them
EXIT_FAILED, EXIT_USAGE, EXIT_NOT_RUNNING = 1, 2, 5


class Stream:
    """One streamed answer, whose client reads when it likes."""

    def __init__(self, url, **options):
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
        body = {"model": "tiny", "stream": True, "temperature": 0, "ignore_eos": True,
                "max_tokens": LONG_TOKENS, "messages": [{"role": "user", "content": "Hello"}],
                **options}
        self.connection.request("POST", "/v1/chat/completions", json.dumps(body))
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.text, self.finish, self.error, self.done = "", None, None, False

    def read(self, events=None):
        """So many events, or all; returns itself."""
        for event in stream_events(self.answer):
            if event is None:
                self.done = True
                continue
            if "error" in event:
                self.error = event["error"]
                continue
            choice = event["choices"][0]
            self.text += choice["delta"].get("content") or ""
            self.finish = choice["finish_reason"] or self.finish
            events = events - 1 if events else None
            if events == 0:
                break
        return self

    def close(self):
        self.answer.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def deployment(drain_timeout):
    return Deployment(TOPOLOGY.replace("DRAIN", drain_timeout))


@functools.cache
def alone():
    """What a stream says that nobody disturbs: the same bits in every deployment of this model."""
    with deployment("1s") as running, Stream(running.url) as stream:
        stream.read()
        return stream.text, stream.finish, stream.error, stream.done


def post(url, path="/v1/chat/completions", **body):
    """Status, headers and JSON of an answer, whatever the status."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    connection.request("POST", path, json.dumps(body))
    answer = connection.getresponse()
    result = answer.status, answer.headers, json.load(answer)
    connection.close()
    return result


def ask(url):
    status, _, body = post(url, model="tiny",
                           messages=[{"role": "user", "content": "What is 4 times 2?"}])
    assert status == 200, body
    return body["choices"][0]["message"]["content"]


class Case(unittest.TestCase):
    def expect_whole(self, stream):
        stream.read()
        self.assertEqual((stream.text, stream.finish, stream.error, stream.done), alone())


class Groups(Case):
    def state(self, running, actor):
        return next(row["state"] for row in running.ps() if row["name"] == actor)

    def serving(self, running):
        """The decode group that runs the only open request."""
        rows = await_true(lambda: [row["name"] for row in running.ps() if row["attempts"] and
                                   row["name"].startswith("decode/")], "nobody decodes")
        self.assertEqual(len(rows), 1)
        return rows[0]

    def test_a_stream_outlives_its_group_with_the_same_bits(self):
        with deployment("100ms") as running:
            with Stream(running.url) as stream:
                stream.read(20)
                group = self.serving(running)
                run = running.command("drain", running.name, group)
                self.assertEqual(run.stdout, group + " is drained\n")
                self.assertEqual(self.state(running, group), "drained")
                self.assertNotEqual(self.serving(running), group)  # it is still open, elsewhere
                self.assertEqual(ask(running.url), ANSWER)
                self.expect_whole(stream)
            self.assertIn("GATEWAY-REPLAY", running.log())
            self.nothing_is_left(running)
            running.command("undrain", running.name, group)
            await_true(lambda: self.state(running, group) == "ready", "it did not come back")
            for group in ("prefill/0", "decode/1", "decode/0", "prefill/1"):
                running.command("drain", group)  # the only deployment needs no name
                self.assertEqual(ask(running.url), ANSWER)
                running.command("undrain", group)
            self.nothing_is_left(running)

    def nothing_is_left(self, running):
        await_true(lambda: not any(row["attempts"] for row in running.ps()),
                   lambda: f"left: {[row for row in running.ps() if row['attempts']]}")

    def test_each_of_several_groups_is_told_of(self):
        with deployment("10s") as running:
            run = running.command("drain", running.name, "prefill/0", "prefill/1", check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn("prefill/0 is drained", run.stdout)
            self.assertIn("only one of its kind", run.stdout)
            run = running.command("undrain", running.name, "decode/9", "prefill/0", check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn("prefill/0 takes requests again", run.stdout)

    def test_the_last_of_its_kind_leaves_only_by_force_and_comes_back(self):
        with deployment("10s") as running:
            running.command("drain", "decode/0")
            run = running.command("drain", "decode/1", check=False)
            self.assertEqual(run.returncode, EXIT_FAILED)
            self.assertIn("decode/1: it is the only one of its kind", run.stdout)
            self.assertEqual(self.state(running, "decode/1"), "ready")
            running.command("drain", "decode/1", "--force")
            pid = running.pid("decode/1")
            os.kill(pid, signal.SIGKILL)  # another life of it knows that it is drained
            running.await_new_life("decode/1", pid)
            await_true(lambda: self.state(running, "decode/1") == "drained", "it takes requests")
            said = []
            waiting = threading.Thread(target=lambda: said.append(ask(running.url)))
            waiting.start()
            running.command("undrain", "decode/1")
            waiting.join(timeout=60)
            self.assertEqual(said, [ANSWER])

    def test_what_is_no_group_is_refused(self):
        with deployment("1s") as running:
            for arguments, code in ((["drain"], EXIT_USAGE), (["drain", "--force"], EXIT_USAGE),
                                    (["undrain", "--force", "decode/0"], EXIT_USAGE),
                                    (["drain", "nobody", "decode/0"], EXIT_NOT_RUNNING),
                                    (["drain", "decode/9"], EXIT_FAILED),
                                    (["drain", "decode/0/rank/0"], EXIT_FAILED),
                                    (["drain", "gateway/0", "--force"], EXIT_FAILED)):
                run = running.command(*arguments, check=False)
                self.assertEqual(run.returncode, code, f"{arguments}\n{run.stdout}")
                self.assertTrue(run.stdout)
            admin = running.admin_url()
            for body, status in (({"instance": "decode/0"}, 200), ({"instance": "decode/1"}, 409),
                                 ({"instance": "decode/7"}, 404), ({"instance": 7}, 400),
                                 ({}, 400), ({"instance": "gateway/0", "force": True}, 409)):
                self.assertEqual(post(admin, "/drain", **body)[0], status, body)
            self.assertEqual(post(running.url, "/drain", instance="decode/0")[0], 404)


class Down(Case):
    def in_background(self, running, *arguments):
        run = threading.Thread(target=running.command, args=arguments)
        run.start()
        self.addCleanup(run.join)
        return run

    def await_closing(self, url):
        """Until a new request is sent away; its answer."""
        def sent_away():
            said = post(url, "/v1/completions", model="tiny", prompt="x", max_tokens=1)
            return said if said[0] != 200 else None

        return await_true(sent_away, "everybody is let in")

    def test_it_lets_streams_end_and_nobody_in(self):
        with deployment("60s") as running:
            with Stream(running.url) as stream:
                stream.read(20)
                down = self.in_background(running, "down", running.name)
                status, headers, body = self.await_closing(running.url)
                self.assertEqual(status, 503)
                self.assertGreaterEqual(int(headers["Retry-After"]), 1)
                self.assertIn("going down", body["error"]["message"])
                self.expect_whole(stream)
            down.join(timeout=60)
            self.assertEqual(running.leftovers(), [])
            running.up()

    def test_who_has_no_end_in_time_is_told_so(self):
        with deployment("100ms") as running:
            with Stream(running.url, max_tokens=8000) as stream:
                stream.read(20)
                down = self.in_background(running, "down", running.name)
                stream.read()
                self.assertEqual(stream.error["message"], "this deployment is going down")
            down.join(timeout=60)
            running.up()

    def test_down_now_waits_for_nobody(self):
        """P20 of docs/bugs.md."""
        with deployment("1h") as running:
            with Stream(running.url, max_tokens=8000) as stream:
                stream.read(20)
                running.command("down", running.name, "--now")
                stream.read()
                self.assertFalse(stream.done)
                self.assertEqual(stream.error["message"], "this deployment is going down")
            running.up()

    def test_a_second_interrupt_ends_the_wait(self):
        running = deployment("1h")
        up = subprocess.Popen([LOCKSTEP, "up", running.topology, "--name", running.name,
                               "--port", "0"], env=running.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            url = up.stdout.readline().split()[3].removesuffix("/v1")
            with Stream(url, max_tokens=8000) as stream:
                stream.read(20)
                up.send_signal(signal.SIGINT)
                self.await_closing(url)
                stream.read(20)  # still there
                up.send_signal(signal.SIGINT)
                self.assertEqual(up.wait(timeout=60), 0)
            self.assertEqual(running.leftovers(), [])
        finally:
            up.kill()
            up.stdout.close()
            up.wait()
            running.remove()


if __name__ == "__main__":
    unittest.main()
