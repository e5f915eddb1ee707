"""What `plan` promises runs: so many sessions of each length decode at once and none is sent back,
also with all alternatives, and with long answers that are forced again after a death."""
import http.client
import json
import os
import signal
import unittest

from deployment import Deployment, await_true, stream_events

CONTEXT, SLOTS, LONGEST_AT_ONCE = 40960, 8, 4
TOPOLOGY = f"""lockstep: 1
model: {os.path.abspath("model/tiny")}
hosts: [{{name: local, devices: 2, device_memory: 8GB}}]
limits: {{context_tokens: {CONTEXT}}}
prefill: [{{pages: 512, slots: 4}}]
decode: [{{pages: {1 + LONGEST_AT_ONCE * CONTEXT // 256}, slots: {SLOTS}}}]
"""
PROMPT = 16
SEEN = 3  # tokens: the first is prefill's, the others show that decode runs it
FORCED = 1500


def setUpModule():
    global deployment, capacity
    os.environ["LOCKSTEP_DEVICE"] = "symbolic"
    unittest.addModuleCleanup(os.environ.pop, "LOCKSTEP_DEVICE")
    deployment = unittest.enterModuleContext(Deployment(TOPOLOGY))
    plan = deployment.command("plan", deployment.topology, "--json").stdout
    capacity = json.loads(plan)["capacity"]


class Session:
    def __init__(self, number, length, options):
        self.connection = http.client.HTTPConnection(*deployment.address, timeout=60)
        self.connection.request("POST", "/v1/completions", json.dumps({
            "model": "tiny", "prompt": [5 + (i + number) % 1000 for i in range(PROMPT)],
            "max_tokens": length - PROMPT, "ignore_eos": True, "stream": True, **options}))
        self.events = None

    def read(self, tokens):
        """So many more tokens; none of them is the last."""
        if self.events is None:
            answer = self.connection.getresponse()
            assert answer.status == 200, answer.read()
            self.events = stream_events(answer)
        for _ in range(tokens):
            event = next(self.events)
            assert event and "error" not in event, event
            assert event["choices"][0]["finish_reason"] is None, event


class Capacity(unittest.TestCase):
    def run_at_once(self, count, length, options, tokens=SEEN):
        sessions = [Session(number, length, options) for number in range(count)]
        for session in sessions:
            session.read(tokens)
        if length > 1024:  # shorter ones may have ended meanwhile
            decode, = (row for row in deployment.ps() if row["name"] == "decode/0")
            self.assertEqual(decode["attempts"], count)
        return sessions

    def end(self, sessions):
        for session in sessions:
            session.connection.close()
        await_true(lambda: deployment.metrics()["lockstep_requests_open"] == 0, "clients left")
        self.assertNotIn("GATEWAY-REPLAY", deployment.log())

    def test_each_length_runs_as_often_as_planned(self):
        self.assertEqual([row["tokens"] for row in capacity], [1024, 8192, 32768, CONTEXT])
        self.assertEqual([row["sessions"] for row in capacity], [8, 8, 5, LONGEST_AT_ONCE])
        for row in capacity:
            for options in ({}, {"logprobs": 20}):
                with self.subTest(row=row, options=options):
                    self.end(self.run_at_once(row["sessions"], row["tokens"], options))

    def test_what_is_forced_has_room_again(self):
        sessions = self.run_at_once(LONGEST_AT_ONCE, CONTEXT, {"logprobs": 20}, FORCED)
        rank, = (row for row in deployment.ps() if row["name"] == "decode/0/rank/0")
        os.kill(rank["pid"], signal.SIGKILL)
        for session in sessions:  # each is replayed, with all that its client has
            session.read(FORCED)
        for session in sessions:
            session.connection.close()
        self.assertIn("GATEWAY-REPLAY", deployment.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
