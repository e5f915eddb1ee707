"""check_readme.py [ROOT] - each source file is named in the README.md of its folder or one above.

The root's own does not count. A file is named by its name or its stem ("arena.h, .c" names two).
Of tests, tests/README.md names the folders. A README has at most one page. Prints what is missing;
exit 1 then.
"""
import os
import re
import sys

SOURCES = (".c", ".h", ".cu", ".cuh", ".py", ".sh")
PAGE_LINES = 100


def readme_of(root, folder):
    """The nearest README.md from `folder` upwards, below the root; None if there is none."""
    while folder:
        path = os.path.join(folder, "README.md")
        if os.path.exists(os.path.join(root, path)):
            return path
        folder = os.path.dirname(folder)
    return None


def names(text, word):
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems, texts = [], {}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - {".git", "build", "__pycache__"})
        relative = os.path.relpath(folder, root).replace("\\", "/")
        in_tests = relative.startswith("tests/")
        sources = sorted(name for name in files if name.endswith(SOURCES))
        if relative == "." or not sources:
            continue
        readme = readme_of(root, relative)
        if not readme:
            problems.append(f"{relative}: no README.md says what lives here")
            continue
        if readme not in texts:
            with open(os.path.join(root, readme), encoding="utf-8") as file:
                texts[readme] = file.read()
            if texts[readme].count("\n") > PAGE_LINES:
                problems.append(f"{readme}: more than {PAGE_LINES} lines; a page is enough")
        text = texts[readme]
        if in_tests and readme == "tests/README.md":
            if not names(text, relative.split("/")[1]):
                problems.append(f"{readme}: does not name the folder {relative}")
            continue
        problems += [f"{readme}: does not name {relative}/{name}" for name in sources
                     if not names(text, name) and not names(text, os.path.splitext(name)[0])]
    print("\n".join(problems or ["readme: every source file is named"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
