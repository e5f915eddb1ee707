"""`up --in-process`: the same deployment as threads of one process, for a debugger."""
import re
import signal
import subprocess
import unittest

from deployment import LOCKSTEP, Deployment

QUESTIONS = ("What is 4 times 2?", "What is Lockstep?", "Count from 16 to 40.")
READY = re.compile(r" gateway/0 GATEWAY-READY port=(\d+)")
EXIT_USAGE = 2


class InProcess(Deployment):
    """The same promises, kept by one process that this test itself starts and ends."""

    end = signal.SIGINT

    def up(self):
        self.process = subprocess.Popen(
            [LOCKSTEP, "up", self.topology, "--name", self.name, "--port", "0", "--in-process"],
            env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            self.said += line
            ready = READY.search(line)
            if ready:
                self.url = f"http://127.0.0.1:{ready[1]}"
                return self
        raise AssertionError(f"it ended: {self.process.wait()}\n{self.said}")

    def down(self):
        self.process.send_signal(self.end)
        self.said += self.process.stdout.read()
        self.process.stdout.close()
        status = self.process.wait(timeout=60)
        assert status == 0, f"it ended with {status}\n{self.said}"


def answers(deployment):
    return subprocess.run([LOCKSTEP, "chat", "--url", deployment.url], input="\n".join(QUESTIONS),
                          capture_output=True, text=True, check=True, timeout=120).stdout


class Same(unittest.TestCase):
    def test_its_answers_are_those_of_processes(self):
        for topology in ("default", "tp2"):
            path = f"topology/examples/{topology}.yaml"
            with self.subTest(topology=topology):
                with InProcess(path) as deployment:
                    found = answers(deployment)
                    self.assertEqual(len(deployment.processes()), 1)
                with Deployment(path) as deployment:
                    self.assertEqual(found, answers(deployment))
                self.assertIn("4 * 2 = 8.", found)

    def test_other_commands_find_it(self):
        with InProcess("topology/examples/default.yaml") as deployment:
            pids = {row["name"]: row["pid"] for row in deployment.ps()}
            self.assertEqual(pids.pop("supervisor/0"), 0)  # it has none
            self.assertEqual(set(pids.values()), {deployment.process.pid})
            run = deployment.command("abort", deployment.name, "chatcmpl-none", check=False)
            self.assertIn("no open request", run.stdout)

    def test_a_termination_ends_it_as_well(self):
        deployment = InProcess("topology/examples/default.yaml")
        deployment.end = signal.SIGTERM
        with deployment:
            self.assertIn("runs in this process", deployment.said)

    def test_it_cannot_be_detached(self):
        run = subprocess.run([LOCKSTEP, "up", "topology/examples/default.yaml", "--in-process",
                              "--detach"], capture_output=True, check=False, timeout=60)
        self.assertEqual(run.returncode, EXIT_USAGE)


if __name__ == "__main__":
    unittest.main()
