"""A deployment keeps journals, its decode leader is killed in the middle of answers, and every life
runs again from its journal: of those that live, and of the one that was kept as an incident."""
import os
import shutil
import tempfile
import unittest

from deployment import Deployment, await_true
from test_faults import QUESTIONS, Load, ask

TOPOLOGY = """lockstep: 1
model: %s
limits: {context_tokens: 8192}
journal: {segment: 256KiB, tokens: %s}
prefill: [{pages: 64}]
decode: [{pages: 64, slots: 32}]
"""
VICTIM = "decode/0"
KINDS = ("gateway.0", "scheduler.0", "prefill.0", "prefill.0.rank.0", "decode.0", "decode.0.rank.0",
         "transfer.0", "monitor.0", "supervisor.0")


class Replay(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="e2e-replay-")
        self.addCleanup(shutil.rmtree, self.folder)

    def replay(self, deployment, *arguments, code=0):
        run = deployment.command("replay", *arguments, check=False)
        self.assertEqual(run.returncode, code, run.stdout)
        return run.stdout

    def test_every_life_runs_again(self):
        with Deployment(TOPOLOGY % (os.path.abspath("model/tiny"), "kept")) as deployment:
            alone = {question: ask(deployment.url, question) for question in QUESTIONS}
            with Load(deployment.url, alone) as load:
                pid = deployment.pid(VICTIM)
                os.kill(pid, 9)
                deployment.await_new_life(VICTIM, pid)
                deployment.await_ready()
            self.assertEqual((load.failed, load.wrong), ([], []))
            await_true(lambda: "INCIDENT-KEPT actor=decode/0" in deployment.log(),
                       lambda: deployment.log()[-4000:])

            # Those that live are read while they write.
            said = self.replay(deployment, deployment.run_path("journal"))
            for kind in KINDS:
                self.assertIn(f"/{kind}-", said)
            self.assertIn("decode/0, life 2", said)
            self.assertNotIn("differ", said)

            incidents = deployment.run_path("incidents")
            self.assertEqual(os.listdir(incidents), ["000001-decode.0-1"])
            incident = os.path.join(incidents, "000001-decode.0-1")
            with open(os.path.join(incident, "decode.0.frames"), encoding="utf-8") as file:
                self.assertIn("prefill/0 > decode/0 reserve{", file.read())

            # As a file in another place, with nothing of the deployment beside it.
            elsewhere = os.path.join(self.folder, "elsewhere")
            shutil.copytree(incident, elsewhere)
        said = self.replay(deployment, elsewhere)
        self.assertIn("decode/0, life 1", said)
        journal = sorted(os.path.join(elsewhere, name) for name in os.listdir(elsewhere)
                         if name.endswith(".journal"))[-1]
        said = self.replay(deployment, "--print", "--reveal", journal)
        self.assertRegex(said, r"decode/0/rank/0 > decode/0 step_done\{")
        self.assertRegex(said, r"decode/0 > gateway/0 tokens\{items=\[\{.*token=\d+")
        with open(journal, "r+b") as file:  # somewhere in the records
            file.seek(-200, os.SEEK_END)
            byte = file.read(1)
            file.seek(-200, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        self.assertRegex(self.replay(deployment, journal, code=3), r"record \d+ is damaged")

    def test_without_leave_journals_show_no_token_and_those_without_any_run(self):
        with Deployment(TOPOLOGY % (os.path.abspath("model/tiny"), "withheld")) as deployment:
            ask(deployment.url, QUESTIONS[0])
            self.replay(deployment, deployment.run_path("journal", "scheduler.0-1-000000.journal"))
            decode = deployment.run_path("journal", "decode.0-1-000000.journal")
            self.assertIn("without token ids", self.replay(deployment, decode, code=3))
            said = self.replay(deployment, "--print", "--reveal", decode)
            self.assertRegex(said, r"decode/0/rank/0 > decode/0 step_done\{.*token=0,")
            self.assertNotRegex(said, r"token=[1-9]")


if __name__ == "__main__":
    unittest.main()
