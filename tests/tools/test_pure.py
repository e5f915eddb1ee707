"""The walk over steps and copies finds what is planted: a clock, a queue, free memory, chance."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("LOCKSTEP_BUILD", "build/release")
ARCHIVES = [path for folder in ("runtime/base", "kernels", "cache", "device", "model", "actors")
            for path in glob.glob(f"{BUILD}/{folder}/*.a")]
VERBS = ("begin", "start", "load", "run", "digest", "copy")
GENERIC = ("convert_run", "convert_copy", "generic_step", "generic_copy", "generic_generation_set")
DEVICE = "\n".join((
    "typedef void verb_t(void);", "void part(void);",
    *(f"void {name}(void); void {name}(void) {{}}" for name in GENERIC),
    *(f"__attribute__((noinline)) static void toy_{verb}(void) {{{'part();' * (verb == 'run')}}}"
      for verb in VERBS),
    f"struct {{ verb_t *table[{len(VERBS)}]; }} toy_backend = {{{{"
    + ", ".join(f"toy_{verb}" for verb in VERBS) + "}};"))
PLANTS = {
    "clock_gettime": "#include <time.h>\nlong part(void) { struct timespec t; "
                     "clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_nsec; }",
    "random": "#include <stdlib.h>\nlong part(void) { return random(); }",
    "getrandom": "#include <sys/random.h>\nlong part(void) { char c; return getrandom(&c, 1, 0); }",
    "sysconf": "#include <unistd.h>\nlong part(void) { return sysconf(_SC_AVPHYS_PAGES); }",
    "malloc": "#include <stdlib.h>\nvoid *part(void) { return malloc(7); }",
    "worker_count": "long worker_count(void);\nlong part(void) { return worker_count(); }",
    "rdtsc": "unsigned long long part(void) { return __builtin_ia32_rdtsc(); }",
    "rdrand": 'long part(void) { long x; __asm__("rdrand %0" : "=r"(x)); return x; }',
    "time": "#include <time.h>\nstatic long (*const table[])(long *) = {time};\n"
            "long part(int i) { return table[i & 1](0); }",  # reached through a table
}


class Pure(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def compile(self, name, text):
        """An object of one C file."""
        path = os.path.join(self.folder, name)
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["cc", "-std=gnu17", "-O2", "-fPIC", "-ffunction-sections",
                        "-fdata-sections", "-c", path + ".c", "-o", path + ".o"], check=True)
        return path + ".o"

    def check(self, *paths):
        run = subprocess.run([sys.executable, "tools/check_pure.py", *paths], check=False,
                             stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout

    def test_each_plant_is_found_with_the_way_to_it(self):
        device = self.compile("device", DEVICE)
        for plant, text in PLANTS.items():
            with self.subTest(plant=plant):
                code, said = self.check(device, self.compile(f"plant_{plant}", text))
                self.assertEqual(code, 1)
                self.assertRegex(said, rf"(?m)^{plant} <- (\S+ <- )?part <- toy_run$")

    def test_a_step_that_only_computes_is_pure(self):
        plain = "#include <string.h>\nvoid part(void) { static char a[9], b[9]; memcpy(a, b, 9); }"
        code, said = self.check(self.compile("device", DEVICE), self.compile("plain", plain))
        self.assertEqual((code, said[:5]), (0, "pure:"))

    def test_code_that_cannot_be_found_is_not_taken_for_pure(self):
        device = self.compile("device", DEVICE.replace("toy_copy", "toy_duplicate"))
        code, said = self.check(device, self.compile("plain", "void part(void) {}"))
        self.assertEqual(code, 1)
        self.assertIn("toy_copy is called for steps or copies, and is not here", said)

    def test_a_clock_in_the_real_forward_pass_is_found(self):
        if not ARCHIVES:
            self.skipTest("nothing is built")
        plant = PLANTS["clock_gettime"].replace("part", "forward_digest")
        code, said = self.check(*ARCHIVES, self.compile("plant", plant))
        self.assertEqual(code, 1)
        self.assertRegex(said, r"(?m)^clock_gettime <- forward_digest <- .*device_cpu_run$")


if __name__ == "__main__":
    unittest.main()
