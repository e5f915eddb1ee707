"""Pages that promise something keep it: docs/limits.md has every limit, docs/bugs.md its tests."""
import glob
import re
import unittest


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Docs(unittest.TestCase):
    def test_limits_has_every_limit_and_no_other(self):
        header = read("runtime/base/limits.h")
        limits = set(re.findall(r"^    ([A-Z][A-Z_]+) = ", header, re.M))
        told = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", read("docs/limits.md")))
        self.assertGreater(len(limits), 50)
        self.assertEqual(limits - told, set(), "not in docs/limits.md")
        self.assertEqual(told - limits, set(), "not in runtime/base/limits.h")


class Bugs(unittest.TestCase):
    """Each number is in the test that its row names, or the row says why it cannot happen."""

    def test_each_number_is_where_its_row_says(self):
        rows = re.findall(r"^\| ([A-Z]\d+) \| [^|]+ \| ([^|]+) \|$", read("docs/bugs.md"), re.M)
        numbers = [number for number, _ in rows]
        schedules = "".join(read(path) for path in sorted(glob.glob("sim/schedule*.[ch]")))
        self.assertGreater(len(rows), 45)
        self.assertEqual(len(numbers), len(set(numbers)), "a number twice")
        for number, what in rows:
            names = re.findall(r"`(\w+)`(?: in (tests/[\w./]+))?", what)
            for name, path in names:
                text = read(path) if path else schedules
                self.assertRegex(text, rf"\b{name}\b", f"{number}: no test {name}")
                self.assertRegex(text, rf"\b{number}\b", f"{number} is not in {path or 'sim'}")
            if not names:
                self.assertGreater(len(what), 50, f"{number}: neither a test nor a reason")

    def test_each_test_that_is_named_is_there(self):
        for name, path in re.findall(r"`(\w+)` in (tests/[\w./]+)", read("docs/bugs.md")):
            self.assertRegex(read(path), rf"\b{name}\b", path)


if __name__ == "__main__":
    unittest.main()
