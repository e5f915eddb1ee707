"""Looking inside a running deployment: `tap` shows messages, `probe` shows paths."""
import json
import os
import re
import unittest
import urllib.request

from deployment import Deployment, await_true, stream_events
from test_in_process import answers

TOPOLOGY = "topology/examples/default.yaml"


class Inside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.deployment = cls.enterClassContext(Deployment(TOPOLOGY))
        answers(cls.deployment)

    def tap(self, *arguments):
        return self.deployment.command("tap", self.deployment.name, "--old", *arguments).stdout

    def test_tap_shows_a_requests_way_and_hides_what_was_said(self):
        lines = self.tap().splitlines()
        way = ("client > gateway/0 client_request", "gateway/0 > scheduler/0 route",
               "scheduler/0 > gateway/0 routed", "gateway/0 > prefill/0 submit",
               "prefill/0 > decode/0 reserve", "decode/0 > transfer/0 open",
               "prefill/0 > prefill/0/rank/0 step", "prefill/0/rank/0 > device step",
               "decode/0 > gateway/0 tokens", "gateway/0 > client client_end")
        for step in way:
            self.assertTrue(any(f" {step}{{" in line for line in lines), step)
        times = [float(line.split()[0]) for line in lines if "overwritten" not in line]
        self.assertEqual(times, sorted(times))
        self.assertRegex("\n".join(lines), r"prompt=\[\d+ tokens\]")
        self.assertNotRegex("\n".join(lines), r"prompt=\[\d+ \d+")

    def test_tap_takes_one_actor_and_one_message_and_reveals_when_told(self):
        lines = self.tap("--actor", "prefill/0", "--message", "submit", "--reveal").splitlines()
        self.assertGreater(len(lines), 0)
        for line in lines:
            self.assertRegex(line, r" gateway/0 > prefill/0 submit\{.*prompt=\[\d+[] ]")
        self.assertIn(" submit{", self.tap("--message", "SUBMIT"))  # as the pages of docs write it

    def test_tap_of_no_message_fails(self):
        run = self.deployment.command("tap", self.deployment.name, "--message", "submitt",
                                      check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("no message 'submitt'", run.stdout)

    def test_streams_are_up(self):
        run = self.deployment.command("ps", self.deployment.name, "--streams")
        self.assertRegex(run.stdout, r"(?m)^gateway/0 +scheduler/0 +1 up ")

    def test_ps_shows_what_attempts_wait_for(self):
        def waits():
            return next(row["attempt_waits"] for row in self.deployment.ps()
                        if row["name"] == "decode/0")

        body = {"model": "tiny", "prompt": "Once", "stream": True, "max_tokens": 1000,
                "ignore_eos": True}
        request = urllib.request.Request(self.deployment.url + "/v1/completions",
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            next(stream_events(answer))
            # The first token is prefill's: decode opens its slot soon after.
            await_true(lambda: waits()["close"] == 1, lambda: f"not open: {waits()}")
            lines = self.deployment.command("ps", self.deployment.name).stdout
            self.assertRegex(lines, r"(?m)^decode/0: attempts wait for.* close: 1")
        # Its client has left: all of it comes back, and nothing is left to wait for.
        await_true(lambda: not any(waits().values()), lambda: f"still {waits()}")

    def test_tap_of_nobody_fails(self):
        run = self.deployment.command("tap", self.deployment.name, "--actor", "nobody/7",
                                      check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("nobody/7", run.stdout)

    def test_a_probe_is_switched_while_it_runs(self):
        def probe(*words, **options):
            return self.deployment.command("probe", self.deployment.name, *words, **options)

        def lines():
            found = [os.path.join(folder, "log")
                     for folder, _, names in os.walk(self.deployment.folder) if "log" in names]
            with open(found[0], encoding="utf-8") as log:
                return re.findall(r" gateway/0 PROBE message_handled .*", log.read())

        self.assertNotIn("on in", probe().stdout)
        self.assertEqual(lines(), [])
        probe("gateway/0", "message_handled", "on")
        self.assertIn("on in gateway/0", probe().stdout)
        answers(self.deployment)
        probe("gateway/0", "message_handled", "off")
        self.assertGreater(len(lines()), 5)
        self.assertEqual(probe("gateway/0", "nonsense", "on", check=False).returncode, 2)
        self.assertEqual(probe("nobody/0", "stream_gap", "on", check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
