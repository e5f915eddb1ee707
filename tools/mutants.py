"""mutants.py [--long] [--count N] [--seed N] [FILE...] - do the tests see small mistakes?

Draws mutants (mutate.py) of actors/, cache/, runtime/ and device/, or of FILEs. Each is built in a
copy of this tree (build/mutants), then the unit tests of its folder run, and 2,000 simulated
deployments. Prints who caught it, or that it survived: then a test is missing, or the change means
the same, which a person must say. --long draws 200 (default 20). Exit 1 below 95 % caught.
"""
import argparse
import glob
import os
import random
import signal
import subprocess
import sys

from mutate import mutants

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = os.path.join(ROOT, "build", "mutants")
BUILD = os.path.join(TREE, "build", "mutants")
TESTS = {"actors": ["actors", "sim"], "cache": ["cache", "actors"], "device": ["device", "model"],
         "runtime": ["base", "runtime", "messages", "actors", "sim"]}
SEEDS = [("topology/examples/tp2.yaml", "1..1500"), ("topology/examples/8-devices.yaml", "1..500")]
TEST_S, BUILD_S, GOAL = 300, 900, 0.95
SLOW, JOBS = "^(test_replay|test_stories|test_drain)$", str(os.cpu_count())


def call(*command, seconds=BUILD_S, cwd=TREE):  # exit 0 in time? Whoever runs on is killed.
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as process:
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def prepare():
    """The tree as committed, built."""
    if not os.path.exists(TREE):
        call("git", "worktree", "add", "--detach", TREE, "HEAD", cwd=ROOT)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    return (call("git", "checkout", "--force", "--detach", head) and
            call("cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 "-DCMAKE_C_FLAGS_RELEASE=-O1") and call("ninja", "-C", BUILD))


def judge(path):
    """What the change in `path` was caught by, or None."""
    if not call("ninja", "-C", BUILD):
        return "compiler"
    labels = "|".join(TESTS[path.split("/", maxsplit=1)[0]])
    if not call("ctest", "--test-dir", BUILD, "-L", f"^({labels})$", "-LE", "^(long|release)$",
                "-E", SLOW, "--stop-on-failure", "-j", JOBS, "--timeout", "60", seconds=TEST_S):
        return "tests"
    for topology, seeds in SEEDS:
        if not call(os.path.join(BUILD, "lockstep-sim"), "--topology", topology, "--seeds", seeds,
                    "--jobs", JOBS, "--keep-going", seconds=TEST_S):
            return f"seeds of {os.path.basename(topology)}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="*")
    a = parser.parse_args()
    files = a.files or sorted(path for folder in TESTS for path in
                              glob.glob(f"{folder}/**/*.c", recursive=True, root_dir=ROOT))
    if not prepare() or judge("actors/") is not None:
        sys.exit("mutants: the tree does not pass without a change")
    drawn = []
    for path in files:
        with open(os.path.join(TREE, path), encoding="utf-8") as file:
            drawn += mutants(path, file.read())
    random.Random(a.seed).shuffle(drawn)
    wanted, judged, survivors = a.count or (200 if a.long else 20), 0, 0
    for path, number, kind, before, after in drawn:
        if judged == wanted:
            break
        with open(os.path.join(TREE, path), "r+", encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
            lines[number - 1] = after + "\n"
            file.seek(0)
            file.truncate()
            file.writelines(lines)
        caught = judge(path)
        call("git", "checkout", path)
        if caught == "compiler":
            continue
        judged += 1
        survivors += caught is None
        print(f"{caught or 'SURVIVED':24} {path}:{number} {kind}: {before.strip()} -> "
              f"{after.strip()}", flush=True)
    print(f"mutants: {judged - survivors} of {judged} caught")
    return 1 if judged and (judged - survivors) / judged < GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
