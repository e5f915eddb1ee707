"""check_pure.py FILE... - what a rank's step and copy code can reach, in archives and objects.

A rank decides nothing (design 4): what it computes depends on the STEP and on the bytes it names.
So the code that runs steps and copies may reach no clock, no queue, no free memory, no chance. This
walks all references from it, and refuses those that leave the given files unless ALLOWED explains
them, and instructions that ask the machine. Files must be compiled with -ffunction-sections.
"""
import collections
import re
import subprocess
import sys

# Below these, steps and copies run. The generic half of a device calls a backend through its table
# X_backend, which brings X_start, X_run and so on; operators through a table for each instruction set.
ROOTS = {"convert_run", "convert_copy", "generic_step", "generic_copy", "generic_generation_set"}
BACKEND_TABLE = re.compile(r"(\w+)_backend")
BACKEND_ROOTS = ("begin", "start", "load", "run", "digest", "copy")
OPERATOR_TABLE = re.compile(r"operators_\w+")

# What steps may call to hold answers to a grammar: walked wherever it is among the given files.
GRAMMAR = {"grammar_open", "grammar_attach", "grammar_mask", "grammar_take", "grammar_can_end",
           "grammar_forced", "grammar_mark", "grammar_rewind", "grammar_unmark"}

ALLOWED = {  # what the code may use of the world, and why
    "memcpy memmove memset memcmp strlen strnlen strcspn strspn": "from bytes to bytes",
    "fmaf sqrtf sqrt nearbyint __popcountdi2": "from numbers to numbers, rounded in one way",
    "snprintf vsnprintf": "the text of a failure or of a line",
    "nanosleep": "a symbolic step takes its time; nothing comes back",
    "__tls_get_addr __stack_chk_fail": "added by the compiler",
}
CUT = {  # functions of ours at which the walk ends, and why
    "log_write": "a line for people carries the time; nothing comes back from it",
    "check_failed": "a failed assertion ends the process",
    "futex_wait": "sleeps until a word changes; the word decides",
    "futex_wake": "wakes who sleeps; nothing comes back",
    "isa_level": "asks the machine once which instructions it has; all give the same bits",
}
ASKING = re.compile(r"\t(rdtscp?|rdrand|rdseed|rdpmc|cpuid|syscall)\b")
SYMBOL = re.compile(r"[0-9a-f]{16} (.{7}) (\S+)\t[0-9a-f]{16} +(?:\.\w+ )?(\S+)$")
SECTION = re.compile(r"(?:RELOCATION RECORDS FOR \[|Disassembly of section )([^]:]+)")
REFERENCE = re.compile(r"[0-9a-f]{16} R_\w+ +(\S+?)([-+]0x[0-9a-f]+)?$")

references, asking = collections.defaultdict(set), {}  # by place: (member, section)
local, shared = {}, {}  # places of symbols, by (member, name) and by name


def read(paths, *options):
    text = subprocess.run(["objdump", *options, *paths], check=True, capture_output=True,
                          text=True).stdout
    member, place = 0, None
    for line in text.splitlines():
        if "file format" in line:
            member += 1
        elif match := SYMBOL.match(line):
            if match[2] not in ("*UND*", "*ABS*", "*COM*"):
                local[member, match[3]] = member, match[2]
                if match[1][0] != "l":
                    shared[match[3]] = member, match[2]
        elif match := SECTION.match(line):
            place = member, match[1]
        elif match := REFERENCE.match(line):
            references[place].add(match[1])
        elif match := ASKING.search(line):
            asking[place] = match[1]


def roots():
    """Names that the walk begins with."""
    tables = {name for (_, name), (_, section) in local.items() if section.startswith(".data")}
    backends = [match[1] for match in map(BACKEND_TABLE.fullmatch, tables) if match]
    return (ROOTS | {f"{backend}_{verb}" for backend in backends for verb in BACKEND_ROOTS}
            | set(filter(OPERATOR_TABLE.fullmatch, tables))
            | (GRAMMAR if GRAMMAR & set(shared) else set()))


def walk():
    """Yields what is wrong, each with the way to it."""
    allowed = {name for names in ALLOWED for name in names.split()} | set(CUT)
    begin = roots()
    ways = {place: (name,) for (_, name), place in local.items() if name in begin}
    for name in sorted(begin - {way[0] for way in ways.values()}):
        yield f"{name} is called for steps or copies, and is not here"
    queue = collections.deque(ways)
    while queue:
        place = queue.popleft()
        for name in sorted(references[place] - allowed):
            target = local.get((place[0], name)) or shared.get(name)
            if not target:
                yield " <- ".join((name, *reversed(ways[place])))
            elif target not in ways:
                ways[target] = (*ways[place], name)
                queue.append(target)
        if place in asking:
            yield " <- ".join((asking[place], *reversed(ways[place])))


read(sys.argv[1:], "-t", "-r")
read(sys.argv[1:], "-d", "--no-show-raw-insn")
problems = list(walk())
print("\n".join(problems or ["pure: steps and copies reach nothing that could differ by rank"]))
sys.exit(1 if problems else 0)
