"""against.py REV [NAME...] [--turns N] [--json FILE] - this tree against another revision of it.

Builds REV beside this one (build/against) and runs the benchmarks of both in turns: copy message
journal fanout control forward gateway, or those named. Each revision runs its own programs. A row
is the median over turns of what this one reached divided by what the other did, larger is better:
of a benchmark that measures against something else its ratio to that, so a busy machine moves both
sides; of the others tokens a second. Rows that only one revision has are named.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OTHER = os.path.join(ROOT, "build", "against")
NAMES = ["copy", "message", "journal", "fanout", "control", "forward", "gateway"]
FORWARD = [("prefill 512", "prefill 512", 512), ("decode, batch 1", "decode 1 16", 1),
           ("decode, batch 8", "decode 8 16", 8)]


def call(*command, cwd=ROOT, **options):
    return subprocess.run(command, cwd=cwd, check=True, text=True, **options)


def prepare(revision):
    """Checks REV out and builds it; this tree was built by bench/run."""
    if os.path.exists(OTHER):
        call("git", "-C", OTHER, "checkout", "--quiet", "--detach", revision)
    else:
        call("git", "worktree", "add", "--quiet", "--detach", OTHER, revision)
    with open(os.path.join(ROOT, "build", "bench", "against.log"), "w", encoding="utf-8") as log:
        for command in (["cmake", "--preset"], ["cmake", "--build", "--preset"]):
            command.append("release")
            call(*command, cwd=OTHER, stdout=log, stderr=log)


def forward(root):
    """{row: tokens a second}"""
    program = os.path.join(root, "build", "release", "bench", "bench_forward")
    threads = str(min(os.cpu_count(), 8))
    result = call(program, "model/tiny", "float32", threads, cwd=root, stdout=subprocess.PIPE,
                  input="".join(f"{line}\n" for _, line, _ in FORWARD))
    seconds = [float(line.split()[0]) for line in result.stdout.splitlines()]
    return {name: tokens / took for (name, _, tokens), took in zip(FORWARD, seconds)}


def gateway(root, out):
    """{row: requests or tokens a second}"""
    environment = {**os.environ, "LOCKSTEP_BUILD": os.path.join(root, "build", "release")}
    call(sys.executable, "bench/gateway.py", "--seconds", "3", "--json", out, cwd=root,
         stdout=subprocess.DEVNULL, env=environment)
    with open(out, encoding="utf-8") as file:
        figures = json.load(file)
    rows = {"alone, first token": 1e3 / figures["alone"]["first_token_ms"],
            "alone, each token": 1e3 / figures["alone"]["each_token_ms"]}
    for load in figures["loads"]:
        rows[f"{load['at_once']} streams, tokens"] = load["tokens_per_second"]
        rows[f"{load['at_once']} streams, gateway CPU"] = 1 / load["cpu_us_per_token"]["gateway"]
    return rows


def measure(name, root):
    """{row: figure, larger is better} of one turn."""
    out = os.path.join(ROOT, "build", "bench", "against-turn.json")
    if name == "forward":
        return forward(root)
    if name == "gateway":
        return gateway(root, out)
    call(os.path.join(root, "build", "release", "bench", f"bench_{name}"), out, cwd=root,
         stdout=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as file:
        return {row["name"]: row["ratio"] for row in json.load(file)["rows"]}


def compare(name, turns):
    """Yields (row, median of ours / theirs); None where only one revision has the row."""
    rows = {}
    for _ in range(turns):
        ours, theirs = measure(name, ROOT), measure(name, OTHER)
        for row in [*ours, *(row for row in theirs if row not in ours)]:
            both = row in ours and row in theirs
            rows.setdefault(row, []).append(ours[row] / theirs[row] if both else None)
    for row, ratios in rows.items():
        yield row, None if None in ratios else statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("revision")
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json")
    a = parser.parse_args()
    os.makedirs(os.path.join(ROOT, "build", "bench"), exist_ok=True)
    prepare(a.revision)
    print(f"this tree against {a.revision} (ratio, larger is better; median of {a.turns} turns)")
    rows = []
    for name in a.names or NAMES:
        for row, ratio in compare(name, a.turns):
            text = "only in one" if ratio is None else f"{ratio:.3f}"
            print(f"{name:8} {row:40} {text}", flush=True)
            rows.append({"benchmark": name, "name": row, "ratio": ratio})
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"title": f"against {a.revision}", "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
