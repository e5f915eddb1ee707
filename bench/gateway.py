"""gateway.py [--json FILE] [--seconds N] - a deployment on the symbolic device, which computes
nothing: what gateway, scheduler and leaders cost by themselves.

Streams of 64 tokens over HTTP, 1 to 256 at once, one connection each. Latency that is added: the
first token of a lone request against GET /v1/models of the same server, in turns. CPU time is each
actor's own, from /proc; the client's is not in it, but shares the cores.
"""
import argparse
import json
import os
import re
import selectors
import socket
import statistics
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from deployment import Deployment  # noqa: E402

TOKENS = 64
AT_ONCE = (1, 8, 64, 256)
BODY = json.dumps({"model": "tiny", "prompt": [5, 6, 7, 8, 9, 10, 11, 12], "max_tokens": TOKENS,
                   "stream": True, "stream_options": {"include_usage": True}})
REQUEST = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
           f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}").encode()
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Stream:
    """One streamed request."""

    def __init__(self, address):
        self.bytes = b""
        self.first = self.end = None
        self.start = time.perf_counter()
        self.socket = socket.create_connection(address)
        self.socket.sendall(REQUEST)
        self.socket.setblocking(False)

    def read(self):
        """False when all has come."""
        part = self.socket.recv(1 << 16)
        self.bytes += part
        if self.first is None and b"data: {" in self.bytes:
            self.first = time.perf_counter()
        return bool(part)

    def finish(self):
        self.end = time.perf_counter()
        self.socket.close()
        if b"data: [DONE]" not in self.bytes:
            sys.exit("no whole answer:\n" + self.bytes.decode(errors="replace")[:1000])
        self.tokens = int(re.search(rb'"completion_tokens": ?(\d+)', self.bytes)[1])


def run(address, at_once, seconds):
    """Keeps so many streams open for so long; all of them, ended."""
    selector = selectors.DefaultSelector()
    ended, until = [], time.perf_counter() + seconds

    def start():
        stream = Stream(address)
        selector.register(stream.socket, selectors.EVENT_READ, stream)

    for _ in range(at_once):
        start()
    while selector.get_map():
        for key, _ in selector.select():
            if key.data.read():
                continue
            selector.unregister(key.fileobj)
            key.data.finish()
            ended.append(key.data)
            if time.perf_counter() < until:
                start()
    return ended


def streaming_at_once(streams):
    """The most that were between their first token and their end."""
    edges = sorted([(s.first, 1) for s in streams] + [(s.end, -1) for s in streams])
    now = most = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def models_seconds(address):
    start = time.perf_counter()
    with socket.create_connection(address) as connection:
        connection.sendall(MODELS)
        while connection.recv(1 << 16):
            pass
    return time.perf_counter() - start


def cpu_seconds(deployment):
    """CPU time of each kind of actor so far."""
    seconds = {}
    for row in deployment.ps():
        with open(f"/proc/{row['pid']}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        kind = "rank" if "rank" in row["name"] else row["name"].split("/")[0]
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        seconds[kind] = seconds.get(kind, 0) + used
    return seconds


def measure_alone(address, turns):
    """A lone request against the cheapest thing that the same server answers, in turns."""
    first, each, floor = [], [], []
    for _ in range(turns):
        floor.append(models_seconds(address))
        stream, = run(address, 1, 0)
        first.append(stream.first - stream.start)
        each.append((stream.end - stream.first) / (stream.tokens - 1))
    floor = statistics.median(floor)
    first = statistics.median(first)
    return {"get_models_ms": floor * 1e3, "first_token_ms": first * 1e3,
            "added_ms": (first - floor) * 1e3, "each_token_ms": statistics.median(each) * 1e3}


def measure_load(deployment, address, at_once, seconds):
    before, start = cpu_seconds(deployment), time.perf_counter()
    streams = run(address, at_once, seconds)
    took, after = time.perf_counter() - start, cpu_seconds(deployment)
    tokens = sum(stream.tokens for stream in streams)
    return {"at_once": at_once, "streaming_at_once": streaming_at_once(streams),
            "requests": len(streams), "requests_per_second": len(streams) / took,
            "tokens_per_second": tokens / took,
            "first_token_ms": statistics.median(s.first - s.start for s in streams) * 1e3,
            "cpu_us_per_token": {kind: (after[kind] - before[kind]) / tokens * 1e6
                                 for kind in sorted(after)}}


def report(alone, loads):
    print("gateway to ranks on the symbolic device")
    print(f"alone: first token {alone['first_token_ms']:.2f} ms, GET /v1/models "
          f"{alone['get_models_ms']:.2f} ms: added {alone['added_ms']:.2f} ms; "
          f"then {alone['each_token_ms']:.3f} ms a token")
    print(f"{'at once':>8} {'streaming':>9} {'requests/s':>10} {'tokens/s':>9} {'first ms':>9}"
          "   CPU us per token: gateway scheduler leaders ranks transfer rest")
    for load in loads:
        cpu = dict(load["cpu_us_per_token"])
        parts = [cpu.pop("gateway"), cpu.pop("scheduler"), cpu.pop("prefill") + cpu.pop("decode"),
                 cpu.pop("rank"), cpu.pop("transfer"), sum(cpu.values())]
        print(f"{load['at_once']:8} {load['streaming_at_once']:9} "
              f"{load['requests_per_second']:10.1f} {load['tokens_per_second']:9.0f} "
              f"{load['first_token_ms']:9.2f}   " + " ".join(f"{part:.1f}" for part in parts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=5)
    a = parser.parse_args()
    os.environ["LOCKSTEP_DEVICE"] = "symbolic"
    with Deployment(os.path.join(ROOT, "bench", "gateway.yaml")) as deployment:
        address = deployment.address
        run(address, 1, 0)
        alone = measure_alone(address, 21)
        loads = [measure_load(deployment, address, at_once, a.seconds) for at_once in AT_ONCE]
    report(alone, loads)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"title": "gateway to ranks on the symbolic device", "alone": alone,
                       "loads": loads}, file, indent=1)


if __name__ == "__main__":
    main()
