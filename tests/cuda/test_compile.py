"""test_compile.py - what nvcc and ptxas said, and what tools/ptx2c.py refuses."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["LOCKSTEP_BUILD"]
KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(
\t.param .u64 k_param_0
)
{
\t.reg .pred \t%p<3>;
\t.reg .f32 \t%f<4>;
\t.reg .b32 \t%r<4>;
\t.reg .b64 \t%rd<4>;
\tSTATEMENT
\tret;
}
"""


def words_of_ptxas():
    """One file a .cu that is there; a build may still hold those of others."""
    sources = [path for folder in ("kernels", "cache")
               for path in glob.glob(f"{folder}/**/*.cu", recursive=True)]
    return [f"{BUILD}/cuda/{os.path.basename(path)[:-3]}.fatbin.words" for path in sorted(sources)]


def translate(text):
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        return subprocess.run([sys.executable, "tools/ptx2c.py", "t", file.name], text=True,
                              capture_output=True)


class Compile(unittest.TestCase):
    def test_no_kernel_spills_on_either_architecture(self):
        words = words_of_ptxas()
        self.assertGreater(len(words), 3)
        for path in words:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for architecture in ("sm_90a", "sm_120a"):
                found = re.findall(rf"Compiling entry function '(\w+)' for '{architecture}'\n.*\n"
                                   r".* (\d+) bytes spill stores, (\d+) bytes spill loads", text)
                self.assertTrue(found, f"{path}: nothing for {architecture}")
                self.assertEqual([row for row in found if row[1:] != ("0", "0")], [])

    def test_every_kernel_is_named_in_the_table(self):
        with open("kernels/cuda/operators.h", encoding="utf-8") as file:
            named = set(re.findall(r"^    K\((\w+)\)", file.read(), re.M))
        compiled = set()
        for path in words_of_ptxas():
            with open(path, encoding="utf-8") as file:
                compiled |= set(re.findall(r"entry function '(\w+)'", file.read()))
        self.assertEqual(named, compiled)


class Translate(unittest.TestCase):
    def refuse(self, statement, why):
        done = translate(KERNEL.replace("STATEMENT", statement))
        self.assertEqual(done.returncode, 1, statement)
        self.assertIn(why, done.stderr)
        self.assertIn(statement.rstrip(";"), done.stderr)

    def test_what_is_not_exact_is_refused(self):
        self.refuse("ex2.approx.f32 %f1, %f2;", "not exact")
        self.refuse("div.full.f32 %f1, %f2, %f3;", "not exact")
        self.refuse("add.rn.ftz.f32 %f1, %f2, %f3;", "not exact")
        self.refuse("red.global.add.f32 [%rd1], %f1;", "no order")

    def test_what_ptxas_may_contract_is_refused(self):
        self.refuse("add.f32 %f1, %f2, %f3;", "contract")
        self.refuse("mul.f32 %f1, %f2, %f3;", "contract")

    def test_what_is_not_known_is_refused(self):
        self.refuse("dp4a.u32.u32 %r1, %r2, %r3, %r1;", "no translation")
        self.refuse("barrier.arrive 1, 64;", "barrier")
        self.refuse("mov.u32 %r1, %smid;", "register %smid")
        done = translate(KERNEL.replace(".visible .entry", ".visible .func f()\n{\n}\n.entry"))
        self.assertIn("not inlined", done.stderr)

    def test_a_plain_statement_is_one_of_c(self):
        done = translate(KERNEL.replace("STATEMENT", "fma.rn.f32 %f1, %f2, %f2, %f3;"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("fmaf(ptx_float(r_f2), ptx_float(r_f2), ptx_float(r_f3))", done.stdout)

    def test_nvcc_that_may_contract_is_refused(self):
        """The plant: the flag that forbids it is left out."""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "k.cu")
            with open(source, "w", encoding="utf-8") as file:
                file.write('extern "C" __global__ void k(float *x)\n'
                           "{\n    x[2] = x[0] + x[1];\n    x[3] = x[0] * x[1];\n}\n")
            for flag, code in (("-fmad=true", 1), ("-fmad=false", 0)):
                subprocess.run([os.environ["NVCC"], flag, "-arch=compute_90a", "--ptx", source,
                                "-o", source + ".ptx"], check=True)
                with open(source + ".ptx", encoding="utf-8") as file:
                    self.assertEqual(translate(file.read()).returncode, code, flag)


if __name__ == "__main__":
    unittest.main()
