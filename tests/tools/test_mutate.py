"""tools/mutate.py finds the small mistakes a line allows, and leaves alone what no test sees."""
import sys
import unittest

sys.path.insert(0, "tools")
import mutate

FUNCTION = """static const int rows = 1 < 2;
int f(int a, int b)
{
    /* a < b */
    ASSERT(a < b);
    if (a < b && ready(a, b))
        count = count + 1;
    LOG(INFO, "a < b");
    return a;
}
"""


class Mutate(unittest.TestCase):
    def test_every_kind_in_a_small_function(self):
        found = {(line, kind, after.strip())
                 for _, line, kind, _, after in mutate.mutants("f.c", FUNCTION)}
        self.assertEqual(found, {
            (6, "turned", "if (a >= b && ready(a, b))"), (6, "bound", "if (a <= b && ready(a, b))"),
            (6, "turned", "if (a < b || ready(a, b))"), (6, "dropped", "if (true)"),
            (6, "dropped", "if (false)"), (6, "dropped", "if (a < b)"),
            (6, "dropped", "if (ready(a, b))"), (6, "swapped", "if (a < b && ready(b, a))"),
            (7, "left out", ";"), (7, "bound", "count = count + 0;")})

    def test_a_line_that_goes_on_is_not_left_out(self):
        text = "void f(void)\n{\n    call(a,\n         other(b));\n}\n"
        self.assertEqual([m for m in mutate.mutants("f.c", text) if m[2] == "left out"], [])


if __name__ == "__main__":
    unittest.main()
