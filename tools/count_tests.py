"""count_tests.py [--broken NAME]... JUNIT.xml... - what ctest ran, counted test by test.

A cmocka binary is one entry to ctest and many tests to us: its own lines are counted, as are those
of Python's unittest. Any other entry is one test. A binary that dies counts what it printed before,
and one failure. Skipped tests are listed with what they said, failed ones with what they printed.
--broken adds a failure that no file tells of, such as a build. The last line is 'N passed, N
failed, N skipped'; exit 1 if a test failed or none passed.
"""
import argparse
import os
import re
import sys
import xml.etree.ElementTree as ET

CMOCKA = re.compile(r"^\[ +(RUN|OK|FAILED|ERROR|SKIPPED) +\] (?!--- )(.+)$")
UNITTEST = re.compile(r"^(.+?) \.\.\. (?:.* )?(ok|FAIL|ERROR|skipped (['\"])(.*)\3)$")


def cmocka_results(text):
    """Yields (name, verdict, what it printed) of each test of a cmocka run."""
    name, said = None, []
    for line in text.splitlines():
        match = CMOCKA.match(line)
        if not match:
            said.append(line)
            continue
        word, who = match.groups()
        if word == "RUN":
            if name:
                yield name, "failed", ["died in the middle"]
            name, said = who, []
        elif who == name or who == "GROUP SETUP":
            verdict = {"OK": "passed", "SKIPPED": "skipped"}.get(word, "failed")
            yield who, verdict, said
            name, said = None, []
    if name:
        yield name, "failed", ["died in the middle"]


def unittest_results(text):
    """Yields the same of a run of Python's unittest with -v."""
    for line in text.splitlines():
        match = UNITTEST.match(line)
        if match:
            verdict = {"ok": "passed", "FAIL": "failed", "ERROR": "failed"}.get(match[2], "skipped")
            yield match[1], verdict, [match[4] or ""]


def case_results(case):
    """The same of one entry of a JUnit file."""
    status = case.get("status")
    output = case.findtext("system-out") or ""
    lines = [line for line in output.splitlines() if line.strip()]
    if status not in ("run", "fail"):
        reason = lines[-1] if lines else case.find("skipped").get("message")
        return [("", "skipped" if lines else "failed", [reason])]
    results = list(cmocka_results(output)) or list(unittest_results(output))
    if not results:
        return [("", "passed" if status == "run" else "failed", lines)]
    if status == "fail" and all(verdict != "failed" for _, verdict, _ in results):
        results.append(("", "failed", ["exit status or time limit, see the log"]))
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--broken", action="append", default=[])
    options = parser.parse_args()
    total = {"passed": 0, "failed": len(options.broken), "skipped": 0}
    remarks = [f"failed   {name}" for name in options.broken]
    for path in options.files:
        preset = os.path.basename(os.path.dirname(path))
        count = {"passed": 0, "failed": 0, "skipped": 0}
        for case in ET.parse(path).getroot().iter("testcase"):
            for name, verdict, said in case_results(case):
                count[verdict] += 1
                where = " ".join(filter(None, [preset, case.get("name"), name]))
                if verdict == "skipped":
                    reason = said[-1].strip() if said else "no reason given"
                    remarks.append(f"skipped  {where}: {reason}")
                elif verdict == "failed":
                    remarks.append("\n    ".join([f"failed   {where}"] + said[-20:]))
        print(f"{preset:8}", ", ".join(f"{number} {verdict}" for verdict, number in count.items()))
        for verdict, number in count.items():
            total[verdict] += number
    print("\n".join([*sorted(remarks, reverse=True),
                     ", ".join(f"{number} {verdict}" for verdict, number in total.items())]))
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
