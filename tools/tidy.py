"""tidy.py [ROOT] - the house style, as far as a machine sees it. Prints what breaks it, exit 1.

tools/allow.txt is a ratchet: it lists the longer functions (PATH:NAME LINES REASON) and files
(PATH LINES REASON) that are there. An entry that is a quarter too large must be lowered or go.
"""
import os
import re
import sys

CODE = (".c", ".h", ".cu", ".cuh")
TEXT = CODE + (".py", ".sh", ".md", ".txt", ".yaml", ".cmake", "check", "quickstart")
DATA = ("tests/golden/", "model/tiny/")  # copied data, not written by hand
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = {".c": 900, ".cu": 900, ".h": 300, ".cuh": 300}
COLUMNS_MAX = (100, 120)  # of code, of comments
BANNED = {  # in C, outside comments and strings
    r"\b(strcpy|strcat|sprintf|vsprintf|gets)\s*\(": "has no bound: use snprintf or memcpy",
    r"\bato[ifl]l?\s*\(": "hides errors: use strtol and look at them",
    r"\bs?rand(om|_r)?\s*\(": "is not ours to seed: use runtime/base/random.h",
    r"\bassert\s*\(": "vanishes with NDEBUG: use ASSERT",
    r"\bASSERT\(!\s*\)": "of a text is refused by clang: use UNREACHABLE",
    r"\bmsgpack_unpack\w*\s*\(": "allocates what a header claims: use the bounded cursor",
}
SLEEP = re.compile(r"\b(time\.|u|nano)?sleep\s*\(")
LATER = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b")
MACHINE = re.compile(r"/[w]ork/(main|wt|shared)|/[h]ome/\w|/[r]oot/\.")
HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def functions(lines):
    """Yields (line, name, length) of each function; in Linux style its braces are in column one."""
    start, name = 0, ""
    for number, line in enumerate(lines, 1):
        if (line[:1].isalpha() or line[:1] == "_") and "(" in line:
            start, name = number, re.search(r"(\w*)\s*\(", line)[1]
        elif line == "}" and name:
            yield start, name, number - start + 1
            name = ""
        elif line.startswith("}"):
            name = ""


def check_text(path, lines):
    source = path.endswith(CODE + (".py",))
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if LATER.search(line):
            yield number, "a note for later: do it now or file an issue"
        if MACHINE.search(line):
            yield number, "a path of one machine"
        columns_max = COLUMNS_MAX[bool(re.search(r"^\s*(/\*|\*|//|#)|\*/$", line))]
        if source and len(line) > columns_max and not line.endswith("\\"):  # a table's row
            yield number, f"{len(line)} columns, at most {columns_max}"
        if source and "\t" in line:
            yield number, "a tab"
        if source and path.startswith("tests/") and SLEEP.search(line):
            yield number, "a test waits for facts, not for time"
    if lines[-1]:
        yield len(lines), "no newline at the end"


def check_code(path, lines, limit):
    plain = HIDDEN.sub(lambda m: "\n" * m[0].count("\n") or " ", "\n".join(lines))
    for number, line in enumerate(plain.split("\n"), 1):
        for match, reason in ((re.search(p, line), reason) for p, reason in BANNED.items()):
            if match:
                yield number, f"{match[0].split('(')[0].strip()} {reason}"
    sizes = [(start, f"{path}:{name}", length, FUNCTION_LINES_MAX)
             for start, name, length in functions(lines)]
    sizes.append((1, path, len(lines) - 1, FILE_LINES_MAX[os.path.splitext(path)[1]]))
    for start, what, length, length_max in sizes:
        if length > limit.get(what, length_max):
            yield start, f"{what} has {length} lines, at most {limit.get(what, length_max)}"
        elif what in limit and length * 5 < limit[what] * 4:
            yield start, f"{what} has {length} lines now: lower its entry in tools/allow.txt"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    texts = {}
    for folder, folders, files in os.walk(root):
        folders[:] = set(folders) - {".git", "build", "__pycache__"}
        for path in (os.path.relpath(os.path.join(folder, name), root) for name in files):
            if path.endswith(TEXT) and not path.startswith(DATA):
                with open(os.path.join(root, path), encoding="utf-8", newline="") as file:
                    texts[path] = file.read().split("\n")
    rows = [line.split() for line in texts.get("tools/allow.txt", []) if line and line[0] != "#"]
    limit = {what: int(lines) for what, lines, *_ in rows}
    problems = [f"{what} is gone" for what in limit if what.split(":")[0] not in texts]
    for path, lines in texts.items():
        code = check_code(path, lines, limit) if path.endswith(CODE) else ()
        found = [*check_text(path, lines), *code]
        problems += [f"{path}:{number}: {problem}" for number, problem in found]
    print("\n".join(sorted(problems) or ["tidy: nothing to say"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
