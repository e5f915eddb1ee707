"""Pages that promise to be complete are: docs/limits.md has every limit, and no other."""
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


if __name__ == "__main__":
    unittest.main()
