"""check_violations.py COMPILER LIST - the compiler must refuse each line but those with `ok:`."""
import subprocess
import sys

FRAME = """
#include "cache/digest.h"
void take_page(page_t page);
void take_unit(unit_t unit);
void body(position_t position, entry_t entry, page_t page, border_t border, slot_t slot,
          uint32_t count)
{
    %s
}
"""


def compiles(compiler, line):
    command = [compiler, "-std=c17", "-D_GNU_SOURCE", "-I.", "-fsyntax-only", "-x", "c", "-"]
    result = subprocess.run(command, input=FRAME % line, text=True, capture_output=True)
    return result.returncode == 0


def main():
    compiler, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    wrong = 0
    for line in lines:
        must = line.startswith("ok:")
        if compiles(compiler, line.removeprefix("ok:")) != must:
            wrong += 1
            print(f"{'refused' if must else 'compiles'}: {line}")
    print(f"{len(lines) - wrong} of {len(lines)} lines as they must be")
    sys.exit(1 if wrong or not lines else 0)


main()
