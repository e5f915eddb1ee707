"""tools/count_tests.py counts what ran: every verdict, deaths in the middle, skips with reasons."""
import os
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

COUNT = [sys.executable, "tools/count_tests.py"]
CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] test_good
[       OK ] test_good
[ RUN      ] test_bad
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- x.c:7: error: Failure!
[  FAILED  ] test_bad
[ RUN      ] test_left_out
the model is not here
[  SKIPPED ] test_left_out
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] test_left_out
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] test_bad
"""
DIED = "[==========] Running 2 test(s).\n[ RUN      ] one\n[       OK ] one\n[ RUN      ] two\n"
GROUP = "[==========] Running 2 test(s).\n[  FAILED  ] GROUP SETUP\n[  ERROR   ] group\n"
UNITTEST = """test_a (test_x.X.test_a) ... ok
test_b (test_x.X.test_b) ... FAIL
test_c (test_x.X.test_c) ... skipped 'PyPI is not reachable'
Ran 3 tests in 0.1s
"""


class Count(unittest.TestCase):
    def count(self, *cases, arguments=()):
        """Counts one JUnit file of (status, output) entries: exit status, last line, all output."""
        with tempfile.TemporaryDirectory() as root:
            path = os.path.join(root, "junit.xml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("<testsuite>")
                for status, output in cases:
                    file.write(f'<testcase name="t" status="{status}">'
                               '<skipped message="SKIP_RETURN_CODE=77"/>'
                               f"<system-out>{escape(output)}</system-out></testcase>")
                file.write("</testsuite>")
            command = [*COUNT, *arguments, path]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            return run.returncode, (run.stdout.splitlines() or [run.stderr])[-1], run.stdout

    def test_each_cmocka_test_counts_once(self):
        status, last, output = self.count(("fail", CMOCKA))
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertIn("t test_left_out: the model is not here", output)
        self.assertIn("t test_bad", output)

    def test_a_binary_that_dies_is_a_failure(self):
        self.assertEqual(self.count(("fail", DIED))[:2], (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_sanitizer_report_after_the_last_test_is_a_failure(self):
        fine = DIED + "[       OK ] two\n"
        self.assertEqual(self.count(("run", fine))[:2], (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.count(("fail", fine))[:2], (1, "2 passed, 1 failed, 0 skipped"))

    def test_a_group_that_cannot_start_is_a_failure(self):
        self.assertEqual(self.count(("fail", GROUP))[:2], (1, "0 passed, 1 failed, 0 skipped"))

    def test_unittest_is_counted_too(self):
        status, last, output = self.count(("fail", UNITTEST))
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertIn("PyPI is not reachable", output)

    def test_a_script_is_one_test(self):
        self.assertEqual(self.count(("run", "fine\n"), ("notrun", "no nvcc here\n"))[:2],
                         (0, "1 passed, 0 failed, 1 skipped"))
        self.assertEqual(self.count(("fail", "bad\n"))[1], "0 passed, 1 failed, 0 skipped")

    def test_a_missing_binary_is_a_failure_not_a_skip(self):
        self.assertEqual(self.count(("notrun", ""))[:2], (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_broken_build_is_a_failure(self):
        status, last, output = self.count(("run", "x"), arguments=("--broken", "build clang"))
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("failed   build clang", output)

    def test_nothing_run_is_no_success(self):
        self.assertEqual(self.count()[:2], (1, "0 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
