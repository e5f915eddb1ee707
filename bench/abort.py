"""abort.py [--json FILE] [--aborts N] [--rounds N] - how soon an abort gives everything back.

A whole deployment on the CPU device (bench/abort.yaml), watched by `lockstep tap`.

1. ABORT until all pages are free: clients leave at random instants, while other streams run. From
   the leader's ABORT to its FENCED, which it says when the memory is free, in milliseconds; and to
   the end of the last step that names the request in steps, which no noise moves: how many that ran
   something the leader saw end meanwhile.
2. A short request behind ten cancelled long prompts, which fill the prefill group: its first token
   against the same alone, and how many chunks of others ended between its arrival and its own.
"""
import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from deployment import LOCKSTEP, Deployment, await_true  # noqa: E402

STREAMS = 8
LONG_PROMPTS, LONG_TOKENS, SHORT_TOKENS = 10, 12000, 8
# ai-dynamo/dynamo pull request 13703, 2026-09-09: Qwen3-0.6B, one GPU, 10 cancelled prefills.
PUBLIC_SECONDS = {"vLLM": 54.7, "TensorRT-LLM": 12.9, "SGLang": 11.3}
RUN = "kind=3"  # an item of a step: token rows, the only kind that takes time
LINE = re.compile(r" *(\d+\.\d+) (\S+) > (\S+) (\w+)\{(.*)")


class Request:
    def __init__(self, address, prompt, tokens):
        self.start = time.perf_counter()
        self.connection = http.client.HTTPConnection(*address, timeout=300)
        self.connection.request("POST", "/v1/completions", json.dumps(
            {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True,
             "stream": True}))

    def first_token(self):
        answer = self.connection.getresponse()
        while not answer.readline().startswith(b"data: {"):
            pass
        return time.perf_counter() - self.start

    def leave(self):
        self.connection.close()


def prompt(draw, tokens):
    return [draw.randrange(300, 1500) for _ in range(tokens)]


def attempts(deployment, actor):
    return next(row["attempts"] for row in deployment.ps() if row["name"] == actor)


def await_idle(deployment):
    await_true(lambda: not any(row["attempts"] for row in deployment.ps()), "something is left")


# ---- what the actors said ------------------------------------------------------------------------


class Tap:
    """Every message of a while."""

    def __init__(self, deployment):
        self.file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([LOCKSTEP, "tap", deployment.name], text=True,
                                        env=deployment.environment(), stdout=self.file)
        time.sleep(1)  # it must have opened every ring

    def __enter__(self):
        return self

    def __exit__(self, *error):
        time.sleep(1)  # it looks twenty times a second
        self.process.terminate()
        self.process.wait()
        self.file.seek(0)
        self.messages = []
        for line in self.file:
            match = LINE.match(line)
            if match and match[4] in ("abort", "fenced", "step", "step_done", "submit"):
                self.messages.append((float(match[1]), *match.groups()[1:]))
        self.file.close()

    def steps_done(self, leader):
        """Of each step of that group: its seq, when it was done, whose it was, whether it ran."""
        sent, done = {}, []
        for at, source, to, what, body in self.messages:
            if what == "step" and source == leader:
                sent[number(body, "seq")] = (
                    {int(request) for request in re.findall(r"request=(\d+)", body)},
                    RUN in body)
            if what == "step_done" and to == leader and number(body, "seq") in sent:
                done.append((number(body, "seq"), at, *sent[number(body, "seq")]))
        return done

    def step_ms(self, leader):
        done = [at for _, at, _, ran in self.steps_done(leader) if ran]
        return statistics.median(b - a for a, b in zip(done, done[1:]) if b - a < 1) * 1e3


def number(body, field):
    return int(re.search(rf"\b{field}=(\d+)", body)[1])


def aborts_of(tap, leader):
    """Of each request that the gateway aborted there: when, and when all was free."""
    began, free = {}, {}
    for at, source, to, what, body in tap.messages:
        if what == "abort" and source.startswith("gateway/") and to == leader:
            began[number(body, "request")] = at
        if what == "fenced" and source == leader:
            free[number(body, "request")] = at
    return [(request, at, free[request]) for request, at in began.items()
            if free.get(request, 0) > at]


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def rows_of(tap, name, leader):
    done, last = tap.steps_done(leader), {}
    for seq, _, requests, _ in done:
        last.update((request, seq) for request in requests)
    steps, ms = [], []
    for request, began, free in aborts_of(tap, leader):
        steps.append(sum(at > began and seq < last.get(request, 0)
                         for seq, at, _, ran in done if ran))
        ms.append((free - began) * 1e3)
    return {"while": name, "aborts": len(steps), "step_ms": tap.step_ms(leader),
            "steps_p50": percentile(steps, 0.5), "steps_p99": percentile(steps, 0.99),
            "ms_p50": percentile(ms, 0.5), "ms_p99": percentile(ms, 0.99)}


# ---- the two measurements ------------------------------------------------------------------------


def measure_decode(deployment, count, draw):
    streams = [Request(deployment.address, prompt(draw, 64), 15000) for _ in range(STREAMS)]
    for stream in streams:
        stream.first_token()
    with Tap(deployment) as tap:
        for _ in range(count):
            time.sleep(draw.random() * 0.05)
            place = draw.randrange(STREAMS)
            streams[place].leave()
            streams[place] = Request(deployment.address, prompt(draw, 64), 15000)
            streams[place].first_token()
    for stream in streams:
        stream.leave()
    await_idle(deployment)
    return rows_of(tap, "decoding", "decode/0")


def measure_prefill(deployment, count, draw):
    with Tap(deployment) as tap:
        for _ in range(count):
            one = Request(deployment.address, prompt(draw, 6000), 1)
            other = Request(deployment.address, prompt(draw, 6000), 1)
            await_true(lambda: attempts(deployment, "prefill/0") == 2, "they are not read")
            time.sleep(draw.random() * 0.3)
            one.leave()
            time.sleep(draw.random() * 0.3)
            other.leave()
            await_idle(deployment)
    return rows_of(tap, "reading its prompt", "prefill/0")


def measure_behind(deployment, rounds, draw):
    alone, behind = [], []
    for _ in range(rounds):
        request = Request(deployment.address, prompt(draw, SHORT_TOKENS), 1)
        alone.append(request.first_token() * 1e3)
        request.leave()
    await_idle(deployment)
    with Tap(deployment) as tap:
        for _ in range(rounds):
            crowd = [Request(deployment.address, prompt(draw, LONG_TOKENS), 1)
                     for _ in range(LONG_PROMPTS)]
            await_true(lambda: attempts(deployment, "prefill/0") == LONG_PROMPTS, "they wait")
            time.sleep(draw.random() * 0.5)
            for request in crowd:
                request.leave()
            request = Request(deployment.address, prompt(draw, SHORT_TOKENS), 1)
            behind.append(request.first_token() * 1e3)
            request.leave()
            await_idle(deployment)
    done, chunks = tap.steps_done("prefill/0"), []
    arrived = [(at, number(body, "request")) for at, _, to, what, body in tap.messages
               if what == "submit" and to == "prefill/0" and is_short(body)]
    for at, request in arrived:
        own = next(seq for seq, _, requests, _ in done if request in requests)
        chunks.append(sum(then > at and seq < own for seq, then, _, ran in done if ran))
    return {"rounds": rounds, "alone_ms": statistics.median(alone),
            "behind_ms_p50": statistics.median(behind), "behind_ms_max": max(behind),
            "chunk_ms": tap.step_ms("prefill/0"), "chunks_waited_max": max(chunks),
            "chunks_waited_mean": statistics.mean(chunks),
            "chunks_cancelled": LONG_PROMPTS * LONG_TOKENS // 512}


def is_short(body):
    return f"prompt=[{SHORT_TOKENS} tokens]" in body


# ---- report --------------------------------------------------------------------------------------


def report(rows, behind):
    print("ABORT until all pages are free (goal: p99 at most 2 steps and 1 copy)")
    print(f"{'while':<20} {'aborts':>6} {'step ms':>8} {'steps p50':>9} {'p99':>4} "
          f"{'ms p50':>7} {'p99':>7}")
    for row in rows:
        print(f"{row['while']:<20} {row['aborts']:6} {row['step_ms']:8.2f} "
              f"{row['steps_p50']:9} {row['steps_p99']:4} {row['ms_p50']:7.2f} "
              f"{row['ms_p99']:7.2f}")
    print(f"\nA short request behind {LONG_PROMPTS} cancelled prompts of {LONG_TOKENS} tokens, "
          f"{behind['chunks_cancelled']} chunks (goal: it waits for one chunk)")
    print(f"first token alone {behind['alone_ms']:.1f} ms, behind them p50 "
          f"{behind['behind_ms_p50']:.1f} ms, max {behind['behind_ms_max']:.1f} ms; a chunk takes "
          f"{behind['chunk_ms']:.1f} ms; chunks waited for: mean "
          f"{behind['chunks_waited_mean']:.1f}, max {behind['chunks_waited_max']}")
    print("for scale, ten cancelled prefills of a 0.6B model on a GPU: " + ", ".join(
        f"{name} {seconds} s" for name, seconds in PUBLIC_SECONDS.items()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--aborts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    a = parser.parse_args()
    draw = random.Random(5)
    with Deployment(os.path.join(ROOT, "bench", "abort.yaml")) as deployment:
        rows = [measure_decode(deployment, a.aborts, draw),
                measure_prefill(deployment, a.aborts // 4, draw)]
        behind = measure_behind(deployment, a.rounds, draw)
    report(rows, behind)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"title": "aborts", "free": rows, "behind": behind,
                       "public_seconds": PUBLIC_SECONDS}, file, indent=1)


if __name__ == "__main__":
    main()
