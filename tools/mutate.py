"""mutate.py - small mistakes in C: which there could be in a file, each as a change of one line.

A mutant is (path, line, kind, before, after). Only code inside functions is changed; not ASSERT,
LOG, PROBE, PLANTED and printing, which no test can or should see, nor lines that go on elsewhere.
"""
import re

SKIP = re.compile(r"\b(ASSERT|LOG|PROBE|PLANTED|UNREACHABLE|FAIL|printf|fprintf|snprintf)\b"
                  r"|^\s*(case|default|#|\*|/\*|static const|enum)")
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
TURNED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "&&": "||",
          "||": "&&"}
OFF_BY_ONE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPERATOR = re.compile(r" (==|!=|<=|>=|<|>|&&|\|\|) ")
CONDITION = re.compile(r"^(\s*(?:\} else )?if \()(.*)(\)(?: \{)?)$")
STATEMENT = re.compile(r"^(\s+)(?!return|break|continue|goto|\w[\w ]* \*?\w+ =)(\(void\))?"
                       r"[\w>.\-\[\]&*]+(\(.*\)| [+\-|&]?= .*|\+\+|--);$")
CALL = re.compile(r"\b([a-z_]+)\(([\w.\->\[\]&]+), ([\w.\->\[\]&]+)([,)])")
ONE = re.compile(r"( [+-] )1\b(?!\w)")


def balanced(text):
    return text.count("(") == text.count(")")


def changes(line):
    """Yields (kind, the line after)."""
    for match in OPERATOR.finditer(line):
        operator = match[1]
        for kind, table in (("turned", TURNED), ("bound", OFF_BY_ONE)):
            if operator in table:
                yield kind, f"{line[:match.start(1)]}{table[operator]}{line[match.end(1):]}"
    match = CONDITION.match(line)
    if match and balanced(match[2]):
        yield "dropped", f"{match[1]}true{match[3]}"
        yield "dropped", f"{match[1]}false{match[3]}"
        parts = re.split(r" (?:&&|\|\|) ", match[2])
        if len(parts) == 2 and all(balanced(part) for part in parts):
            for part in parts:
                yield "dropped", f"{match[1]}{part}{match[3]}"
    match = STATEMENT.match(line)
    if match and balanced(line):
        yield "left out", f"{match[1]};"
    for match in CALL.finditer(line):
        if match[2] != match[3]:
            yield "swapped", (f"{line[:match.start(2)]}{match[3]}, {match[2]}"
                              f"{line[match.end(3):]}")
    for match in ONE.finditer(line):
        yield "bound", f"{line[:match.start()]}{match[1]}0{line[match.end():]}"


def mutants(path, text):
    inside, comment = False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("{", "}")):
            inside = line.startswith("{")
        elif inside and not comment and not SKIP.search(line):
            code = STRING.sub('""', line)
            if code == line and "/*" not in code:
                for kind, after in changes(line):
                    yield path, number, kind, line, after
        comment = "/*" in line and "*/" not in line or comment and "*/" not in line
