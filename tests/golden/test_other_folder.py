"""What `./check --golden DIR` asks of a folder: models of any name, any of its parts; a trace may
differ by one step of its storage format and by no more."""
import json
import math
import os
import struct
import subprocess
import tempfile
import unittest

TESTS = os.path.join(os.environ.get("LOCKSTEP_BUILD", "build/release"), "tests")
GOLDEN = os.path.abspath("tests/golden")
CASES = ("n5", "n258-fp8")  # those with traces
ROWS = "layers.0.attn.rows"


def run(program, folder, pattern="*"):
    return subprocess.run([os.path.join(TESTS, program)], stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, text=True, timeout=300,
                          env={**os.environ, "LOCKSTEP_GOLDEN": folder, "LOCKSTEP_TEST": pattern})


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.model = os.path.join(self.folder, "numbers/deeper/other-name")
        os.makedirs(self.model)
        source = os.path.join(GOLDEN, "numbers/odd")
        for name in os.listdir(source):
            os.symlink(os.path.join(source, name), os.path.join(self.model, name))
        with open(os.path.join(source, "cases.json"), encoding="utf-8") as file:
            cases = json.load(file)
        cases["cases"] = [case for case in cases["cases"] if case["name"] in CASES]
        self.replace("cases.json", json.dumps(cases).encode())

    def replace(self, name, content):
        path = os.path.join(self.model, name)
        os.remove(path)
        with open(path, "wb") as file:
            file.write(content)

    def change_rows(self, trace, steps):
        """Moves one stored number of a trace by that many steps of e4m3."""
        with open(os.path.join(GOLDEN, "numbers/odd", trace), "rb") as file:
            content = bytearray(file.read())
        size = struct.unpack_from("<Q", content)[0]
        tensor = json.loads(content[8:8 + size])[ROWS]
        start, width = 8 + size + tensor["data_offsets"][0], 64  # the first block of the first row
        block = struct.unpack_from(f"<{width}f", content, start)
        largest = max(map(abs, block))
        at = next(i for i, value in enumerate(block)  # room for two steps on the same side
                  if 1.1 < math.frexp(abs(value))[0] * 2 < 1.7 and largest / 4 < abs(value) < largest)
        step = math.ldexp(1, math.frexp(abs(block[at]))[1] - 4)
        struct.pack_into("<f", content, start + 4 * at,
                         block[at] + math.copysign(steps * step, block[at]))
        self.replace(trace, content)
        return run("test_numbers", self.folder, "test_intermediates*")

    def test_names_are_free(self):
        tests = run("test_numbers", self.folder, "test_*golden")
        self.assertEqual(tests.returncode, 0, tests.stdout)
        self.assertIn("deeper/other-name fp8", tests.stdout)
        self.assertIn("test_intermediates_are_golden", tests.stdout)

    def test_a_trace_may_be_one_step_off(self):
        tests = self.change_rows("trace.n258-fp8.fp8.safetensors", 1)
        self.assertEqual(tests.returncode, 0, tests.stdout)
        tests = self.change_rows("trace.n258-fp8.fp8.safetensors", 2)
        self.assertNotEqual(tests.returncode, 0, tests.stdout)
        self.assertIn(ROWS, tests.stdout)

    def test_what_is_not_rounded_has_no_steps(self):
        self.assertNotEqual(self.change_rows("trace.n5.f64.safetensors", 1).returncode, 0)

    def test_what_the_folder_lacks_is_skipped(self):
        for program in ("test_chat", "test_answer", "test_tokenizer", "test_units", "test_format"):
            with self.subTest(program=program):
                tests = run(program, self.folder)
                self.assertEqual(tests.returncode, 0, tests.stdout)
                self.assertIn(f"no {self.folder}", tests.stdout)
        with tempfile.TemporaryDirectory() as empty:
            for program in ("test_numbers", "test_device"):
                self.assertEqual(run(program, empty).returncode, 77)


if __name__ == "__main__":
    unittest.main()
