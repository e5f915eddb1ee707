"""plants.py - each fault of runtime/base/plant.h, put back, is seen by the check that is about it.

Runs `lockstep sim --plant NAME`, prints plant, check and first seed, and fails for a plant that
goes unseen, that another check sees, or that has no row here. The product must hold none of them.
"""
import os
import re
import subprocess
import sys

BUILD = os.environ["LOCKSTEP_BUILD"]
TOPOLOGY = "topology/examples/tp2.yaml"  # the smallest with more than one rank in a group
SEEDS_MAX = 1000
# Which checks of sim/oracle.h (and of clients and devices) may see it first.
CHECKS = {
    "bit-flip": ["bytes", "token"],
    "wrong-token": ["bytes", "token"],
    "tp-desync": ["order"],
    "abort-wedge": ["abort"],
    "late-write": ["fence"],
    "early-return": ["fence"],
    "reopened-attempt": ["reopen"],
    "lost-fence": ["page", "fence"],
    "double-end": ["end"],
    "epoch-mixup": ["fence"],
    "credit-leak": ["credit"],
    "handler-waits": ["wait"],
    "starved-abort": ["abort"],
    "stale-prefix": ["page"],
    "replay-skips-token": ["token", "bytes"],
    "unpublished-check": ["publish"],
    "no-quiesce": ["epoch"],
    "state-flood": ["bound"],
    "seniority-flip": ["seniority"],
    "early-pulled": ["late"],
    "lost-exit": ["life"],
    "early-reserved": ["causal"],
    "lost-attempt": ["leak"],
}


def run(*arguments):
    return subprocess.run([os.path.join(BUILD, "lockstep"), "sim", *arguments],
                          capture_output=True, text=True, errors="replace", check=False)


def known_plants():
    usage = run("--plant", "?", "--seed", "1").stderr
    return re.findall(r"^ +([a-z-]+) {2,}\S", usage[usage.index(" none "):], re.MULTILINE)[1:]


def first_violation(plant):
    """(seed, check, text), or None."""
    result = run("--topology", TOPOLOGY, "--seeds", f"1..{SEEDS_MAX}", "--plant", plant)
    match = re.search(r"^VIOLATION seed (\d+): (([a-z]+):? .*)", result.stdout, re.MULTILINE)
    if not match and result.returncode != 0:
        print(result.stdout[-2000:], result.stderr[-2000:], file=sys.stderr)
    return (int(match[1]), match[3], match[2]) if match else None


def planted_libraries():
    """Libraries of the product whose code asks for a plant: there must be none."""
    for folder in ("runtime", "cache", "actors"):
        library = os.path.join(BUILD, folder, f"liblockstep_{folder}.a")
        symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True)
        if "plant_is_set" in symbols.stdout:
            yield library


def main():
    problems = [f"{library} holds plants" for library in planted_libraries()]
    plants = known_plants()
    problems += [f"{plant}: no row or no plant" for plant in sorted(set(plants) ^ set(CHECKS))]
    for plant in plants:
        found = first_violation(plant)
        if not found:
            problems.append(f"{plant}: not seen within {SEEDS_MAX} seeds")
            continue
        seed, check, text = found
        print(f"{plant:20} {check:10} seed {seed:4}  {text}")
        expected = CHECKS.get(plant, [])
        if check not in expected:
            problems.append(f"{plant}: seen by {check}, not by {' or '.join(expected)}: {text}")
    print("\n".join(problems or [f"plants: all {len(plants)} are seen"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
