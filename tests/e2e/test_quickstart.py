"""./quickstart, the first thing anybody runs: what it shows, and that nothing is left behind."""
import os
import subprocess
import tempfile
import unittest


class Quickstart(unittest.TestCase):
    def test_two_answers_and_nothing_left(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(["./quickstart"], env={**os.environ, "XDG_RUNTIME_DIR": folder},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.STDOUT, check=False, timeout=500)
            left = [name for _, _, names in os.walk(folder) for name in names]
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("\nLockstep is a serving engine in C", run.stdout)
        self.assertIn('\n-> get_weather {"city": "Paris"}\n', run.stdout)
        self.assertIn("temperature 21", run.stdout)
        self.assertIn("Now try:", run.stdout)
        self.assertEqual(left, [])

    def test_nothing_is_left_when_its_reader_leaves(self):
        with tempfile.TemporaryDirectory() as folder:
            for lines in (6, 8):  # before it says that it is ready, and after
                subprocess.run(["bash", "-c", f"./quickstart 2>&1 | head -n {lines}"], check=True,
                               env={**os.environ, "XDG_RUNTIME_DIR": folder}, timeout=500,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                left = [name for _, _, names in os.walk(folder) for name in names]
                self.assertEqual(left, [], lines)

    def test_a_deployment_that_does_not_start_is_a_failure(self):
        with tempfile.NamedTemporaryFile() as file:  # no folder can be made in a file
            run = subprocess.run(["./quickstart"], env={**os.environ, "XDG_RUNTIME_DIR": file.name},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.STDOUT, check=False, timeout=500)
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertIn("quickstart: the deployment did not start", run.stdout)
        self.assertNotIn("Now try:", run.stdout)


if __name__ == "__main__":
    unittest.main()
