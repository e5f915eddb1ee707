"""run.py - checks the model of the attempt protocol with Spin, and that it still is the protocol.

    run.py            small configurations, known faults put in, and the tables of C
    LOCKSTEP_LONG=1   larger configurations too, and that no run of the small ones goes in circles

The verifier is built once from the model and the tables that print_tables prints; configurations
are read from the environment by it. See README.md.
"""
import os
import re
import resource
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ["LOCKSTEP_BUILD"]
LONG = os.environ.get("LOCKSTEP_LONG") == "1"
SECONDS_MAX = 7200 if LONG else 500

# Actors as bits.
GATEWAY, PREFILL, DECODE, TRANSFER, PREFILL_RANK, DECODE_RANK = (1 << n for n in range(6))

# What may happen, in one verifier; attempt.pml says what CALM is, world.pml the rest.
ONE_PAGE = dict(CHUNKS=1, FIXED=1)
CALM = dict(ONE_PAGE, CALM=1)
CALMER = dict(ONE_PAGE, CALM=2)
SMALL = {
    "nothing goes wrong": dict(ANSWER_MAX=4, CHUNKS=1),
    "a client leaves": dict(ABORTS=1),
    "a client leaves a longer answer": dict(ONE_PAGE, ABORTS=1, ANSWER_MAX=3),
    "an obstacle": dict(OBSTACLES=1, FIXED=1),
    "two requests, one page, credit for one": dict(ONE_PAGE, REQUESTS=2, CREDIT=1),
    "a prefill group reforms": dict(REFORMS=1, FIXED=1, BREAKING=PREFILL),
    "a decode group reforms": dict(ONE_PAGE, REFORMS=1, BREAKING=DECODE),
    "a decode group of two reforms": dict(CALMER, RANKS=2, REFORMS=1, BREAKING=DECODE),
    "a prefill group leaves": dict(ONE_PAGE, DRAINS=1, LEAVING=PREFILL),
    "a decode group leaves": dict(ONE_PAGE, DRAINS=1, LEAVING=DECODE),
    "a gateway dies": dict(CALM, DEATHS=1, MORTAL=GATEWAY),
    "a prefill leader dies": dict(CALM, DEATHS=1, MORTAL=PREFILL),
    "a decode leader dies": dict(CALM, DEATHS=1, MORTAL=DECODE),
    "a transfer dies": dict(CALM, DEATHS=1, MORTAL=TRANSFER),
    "one of two decode ranks dies": dict(CALMER, RANKS=2, DEATHS=1, MORTAL=DECODE_RANK),
}
LARGE = {
    "a prefill rank dies": dict(CALM, DEATHS=1, MORTAL=PREFILL_RANK),
    "a decode rank dies": dict(CALM, DEATHS=1, MORTAL=DECODE_RANK),
    "two obstacles": dict(ONE_PAGE, OBSTACLES=2),
    "two requests, an obstacle": dict(ONE_PAGE, REQUESTS=2, CREDIT=1, OBSTACLES=1),
    "two requests, a client leaves": dict(ONE_PAGE, REQUESTS=2, CREDIT=1, ABORTS=1),
    "two ranks, an obstacle": dict(ONE_PAGE, RANKS=2, OBSTACLES=1),
    "two ranks, a client leaves": dict(ONE_PAGE, RANKS=2, ABORTS=1),
    "two ranks, a transfer dies": dict(CALM, RANKS=2, DEATHS=1, MORTAL=TRANSFER),
    "two ranks, their group leaves or stays": dict(ONE_PAGE, RANKS=2, DRAINS=1, RECALLS=1),
    "a prefill group leaves, its leader dies": dict(CALM, DRAINS=1, LEAVING=PREFILL, DEATHS=1,
                                                    MORTAL=PREFILL),
    "a decode group leaves, its leader dies": dict(CALM, DRAINS=1, LEAVING=DECODE, DEATHS=1,
                                                   MORTAL=DECODE),
}

# A known fault put in (world.pml), where, and the assertion that must find it.
MUTANTS = {
    "lost_fence": (dict(), "p[a].state==0"),
    "early_return": (dict(ANSWER_MAX=3), "naming["),
    "double_end": (dict(), "owes_end["),
    "early_piece": (dict(), "open_due"),
    "no_quiesce": (dict(ONE_PAGE, REFORMS=1, BREAKING=DECODE), "d[a].state==0"),
    "credit_leak": (dict(REQUESTS=2, CHUNKS=1, CREDIT=1), "g[r].ended"),
    "unpaid": (dict(REQUESTS=2, CHUNKS=1, CREDIT=1), "<credit"),
    "stale_attempt": (dict(REFORMS=1, CHUNKS=1), "allowed>>left_in"),
    "token_overtaken": (dict(), "x<=g[r].received"),
    "starved_abort": (dict(ABORTS=1), "p[a].state==0"),
    "copies_unfenced": (dict(CALM, DEATHS=1, MORTAL=TRANSFER), "pull["),
    "half_done": (dict(ONE_PAGE, RANKS=2), "naming["),
    "half_quiesced": (dict(ONE_PAGE, RANKS=2, REFORMS=1, BREAKING=DECODE), "d[a].state==0"),
    "half_landed": (dict(ONE_PAGE, RANKS=2), "whole["),
    "unfenced_refusal": (dict(ONE_PAGE, DRAINS=1, LEAVING=DECODE), "p[a].state==0"),
}

# One that no assertion can find: everything ends well, if ever.
CIRCLES = {
    "retry_at_once": (dict(ONE_PAGE, REQUESTS=2), "non-progress cycle"),
}

# Rules of C that no run takes, and why. One that is taken, or is no rule, must leave this list.
NOT_SENT = "an attempt that waits has nothing open that could be fenced"
BEHIND_LANDED = "FENCED follows LANDED, which moves the attempt on, or an ABORT of decode itself"
NO_PART = "no part of the protocol of attempts"
NEVER_TAKEN = {
    "gateway queued fenced": NOT_SENT,
    "gateway routing fenced": NOT_SENT,
    "gateway routed fenced": NOT_SENT,
    "prefill reserving fenced": "decode says END before, and the transfer knows prefill only later",
    "decode opening fenced": BEHIND_LANDED,
    "decode landing fenced": BEHIND_LANDED,
    "rank any joined": "in calm runs all join at once",
    "rank any device_mapped": NO_PART,
    "rank any peer_pool": NO_PART,
    "rank any stop": NO_PART,
    "rank any tick": NO_PART,
}


def fail(text):
    print(text)
    sys.exit(1)


def run(command, env=None, **more):
    settings = {name: str(value) for name, value in (env or {}).items()}
    return subprocess.run(command, env={**os.environ, **settings}, text=True, timeout=SECONDS_MAX,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more)


class Verifier:
    """The model, compiled. `folder` holds all that Spin and it write."""

    def __init__(self, folder, tables, flags):
        self.folder = folder
        self.messages = re.findall(r"\w+", re.search(r"mtype:message = {(.*?)}", tables, re.S)[1])
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(HERE):
            if name.endswith(".pml"):
                shutil.copy(os.path.join(HERE, name), folder)
        with open(os.path.join(folder, "tables.pml"), "w", encoding="utf-8") as file:
            file.write(tables)
        for command in (["spin", "-a", "attempt.pml"],
                        ["gcc", "-O1", "-w", "-DCOLLAPSE", "-DSEPQS", "-DVECTORSZ=2048",
                         "-DMEMLIM=6144", *flags, "-o", "pan", "pan.c"]):
            made = run(command, cwd=folder)
            if made.returncode != 0 or "Error" in made.stdout:
                fail(f"{command[0]} does not take the model:\n{made.stdout[-2000:]}")

    def search(self, env, *flags):
        """All states of a configuration; what was wrong ('' if nothing), and the whole output."""
        trail = os.path.join(self.folder, "attempt.pml.trail")
        if os.path.exists(trail):
            os.remove(trail)
        done = run(["./pan", "-m200000", "-w22", *flags], env, cwd=self.folder)
        wrong = re.search(r"^pan:1: (.*)$", done.stdout, re.M)
        if not wrong and ("errors: 0" not in done.stdout or "Search not completed" in done.stdout):
            fail(f"the search did not end:\n{done.stdout[-2000:]}")
        return wrong[1] if wrong else "", done.stdout

    @staticmethod
    def actor(number):
        return ("gateway", "prefill", "decode", "transfer", "a rank", "decode rank 1",
                "decode rank 2")[int(number)]

    def message(self, number):
        return self.messages[-int(number)]  # Spin counts from the end

    def replay(self, env):
        """The run that went wrong, one line a message."""
        lines = run(["./pan", "-r"], env, cwd=self.folder).stdout.splitlines()
        told = [line.split() for line in lines if " takes " in line or " dies" in line]
        return "\n".join(" ".join([self.actor(word[0]), word[1], *map(self.message, word[2:3]),
                                   *word[3:]]) for word in told)


def rules_of(tables):
    """{(actor, state, message): 'name name name'} of every rule of C, by number."""
    found = re.findall(r"^// rule (\w+) (\d+) (\d+) (.*)$", tables, re.M)
    return {(actor, int(state), int(message)): f"{actor.lower()} {names}"
            for actor, state, message, names in found}


def missing_rules(rules, taken):
    """What the model never took, against what it need not take: complaints."""
    names = {rules[rule] for rule in taken}
    attempts = {name for name in rules.values() if not name.startswith("rank ")}
    # A rank's rows are for any state: a message it has a rule for must be taken in one of them.
    of_rank = {name.split()[2] for name in rules.values() if name.startswith("rank ")}
    taken_by_rank = {name.split()[2] for name in names if name.startswith("rank ")}
    known = attempts | {f"rank any {message}" for message in of_rank}
    done = names | {f"rank any {message}" for message in taken_by_rank}
    unseen = known - done - set(NEVER_TAKEN)
    return ([f"no run takes the rule '{name}'" for name in sorted(unseen)] +
            [f"'{name}' is taken after all" for name in sorted(set(NEVER_TAKEN) & done)] +
            [f"'{name}' is no rule" for name in sorted(set(NEVER_TAKEN) - known)])


def check(verifier, configurations, rules, *flags):
    """Runs them; returns the rules taken."""
    actors = ("GATEWAY", "PREFILL", "DECODE", "TRANSFER", "RANK")
    taken = set()
    for name, env in configurations.items():
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        wrong, output = verifier.search(env, *flags)
        states = float(re.search(r"(\S+) states, stored", output)[1])
        megabytes = float(re.search(r"(\S+)\s+total actual memory usage", output)[1])
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        print(f"{name}: {states:,.0f} states, {seconds:.1f} s, {megabytes:.0f} MB", flush=True)
        if wrong:
            fail(f"{verifier.replay(env)}\n{name}: {wrong}")
        taken |= {(actors[int(actor)], int(state), int(message)) for actor, state, message in
                  re.findall(r"^took (\d+) (\d+) (\d+)$", output, re.M)}
    strange = taken - set(rules)
    if strange:
        fail(f"the model takes what is no rule: {strange}")
    return taken


def check_mutants(verifier, mutants, *flags):
    with open(os.path.join(HERE, "world.pml"), encoding="utf-8") as file:
        numbers = dict(re.findall(r"^#define MUTANT_(\w+) (\d+)$", file.read(), re.M))
    if set(numbers) != set(MUTANTS) | set(CIRCLES):
        fail(f"mutants of the model and of this test differ: {sorted(numbers)}")
    for name, (env, expected) in mutants.items():
        wrong, _ = verifier.search({**env, "MUTANT": numbers[name]}, *flags)
        if expected not in wrong:
            fail(f"mutant {name}: expected '{expected}' to find it, got '{wrong}'")
        print(f"mutant {name}: {wrong}", flush=True)


def main():
    if not shutil.which("spin"):
        print("Spin is not installed (Debian: spin)")
        sys.exit(77)
    printed = run([os.path.join(BUILD, "tests", "print_tables")])
    if printed.returncode != 0:
        fail(f"print_tables:\n{printed.stdout}")
    rules = rules_of(printed.stdout)
    verifier = Verifier(os.path.join(BUILD, "spin"), printed.stdout, ["-DSAFETY"])
    taken = check(verifier, SMALL, rules)
    complaints = missing_rules(rules, taken)
    if complaints:
        fail("\n".join(complaints))
    planted = ("TRANSFER", 1, 255)
    if not missing_rules({**rules, planted: "transfer waiting planted"}, taken):
        fail("a rule that the model does not know goes unseen")
    check_mutants(verifier, MUTANTS)
    if LONG:
        check(verifier, LARGE, rules)
        circles = Verifier(os.path.join(BUILD, "spin-circles"), printed.stdout, ["-DNP"])
        check(circles, SMALL, rules, "-l")
        check_mutants(circles, CIRCLES, "-l")
    print(f"{len(taken)} rules of {len(rules)} taken")


if __name__ == "__main__":
    main()
