"""latency.py [--json FILE] [--seconds N] - how late a token comes to one client while others send
what is expensive to read.

One stream on the symbolic device, whose tokens come all the time; beside it, one after the other,
bodies that take seconds to parse, to render or to tokenize, and a long prompt that is run. What
counts is the longest time between two deliveries to it. Goal: 20 ms, on a machine with cores
to spare. Exits 1 above it.
"""
import argparse
import http.client
import json
import os
import socket
import sys
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from deployment import Deployment, post_bytes  # noqa: E402

GOAL_MS = 20
MIB = 1 << 20


def text(size):
    """Words that are all different, so that no table of merges is short."""
    words, length, number = [], 0, 0
    while length < size:
        word = f"{number * 2654435761 % 2**32:x} "
        words.append(word)
        length += len(word)
        number += 1
    return "".join(words)


def numbered(size, item):
    """{"k0": item, "k1": item, ...} of so many bytes."""
    length = len(json.dumps({"k1000000": item}))
    return {f"k{number}": item for number in range(1000000, 1000000 + size // length)}


def bodies():
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": numbered(17_800_000, {"type": "string"})}}}
    yield "30 MiB of text as a prompt", "/v1/completions", {
        "model": "tiny", "prompt": text(30 * MIB), "max_tokens": 1}
    yield "30 MiB of text in a chat", "/v1/chat/completions", {
        **chat, "messages": [{"role": "user", "content": text(30 * MIB)}]}
    yield "16 MiB of keys", "/v1/chat/completions", {**numbered(16 * MIB, 0), **chat}
    yield "a tool of 17.8 MB", "/v1/chat/completions", {**chat, "tools": [tool]}
    yield "600,000 token ids, run", "/v1/completions", {
        "model": "tiny", "prompt": [5 + number % 1000 for number in range(600_000)],
        "max_tokens": 1}


class Watched(threading.Thread):
    """A stream that is read as it comes, and the longest wait since that was last asked."""

    def __init__(self, address, tokens):
        super().__init__(daemon=True)
        self.lock, self.longest, self.ended = threading.Lock(), 0.0, False
        self.begun = threading.Event()
        self.socket = socket.create_connection(address)
        self.socket.sendall(post_bytes("/v1/completions", {
            "model": "tiny", "prompt": [5, 6, 7], "max_tokens": tokens, "ignore_eos": True,
            "stream": True}))
        self.start()

    def run(self):
        last = None
        while self.socket.recv(1 << 16):
            now = time.perf_counter()
            if last is not None:
                with self.lock:
                    self.longest = max(self.longest, now - last)
                self.begun.set()
            last = now
        self.ended = True

    def longest_ms(self):
        with self.lock:
            longest, self.longest = self.longest, 0.0
        assert not self.ended, "the stream is too short"
        return longest * 1e3


def send(address, path, body):
    start = time.perf_counter()
    connection = http.client.HTTPConnection(*address, timeout=300)
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=5, help="of the stream alone")
    a = parser.parse_args()
    os.environ["LOCKSTEP_DEVICE"] = "symbolic"
    requests = [(name, path, json.dumps(body).encode()) for name, path, body in bodies()]
    rows = []
    with Deployment(os.path.join(ROOT, "bench", "latency.yaml")) as deployment:
        stream = Watched(deployment.address, 400_000)
        stream.begun.wait(60)
        stream.longest_ms()
        time.sleep(a.seconds)
        rows.append({"beside": "nothing", "status": 0, "seconds": a.seconds,
                     "longest_ms": stream.longest_ms()})
        for name, path, body in requests:
            status, seconds = send(deployment.address, path, body)
            rows.append({"beside": name, "status": status, "seconds": seconds,
                         "longest_ms": stream.longest_ms()})
        stream.socket.shutdown(socket.SHUT_RDWR)
        stream.join()
    print("longest time between two deliveries to a stream, symbolic device")
    for row in rows:
        print(f"{row['longest_ms']:8.1f} ms beside {row['beside']} "
              f"(status {row['status']}, {row['seconds']:.1f} s)")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"title": "longest time between two tokens beside large requests",
                       "goal_ms": GOAL_MS, "rows": rows}, file, indent=1)
    sys.exit(max(row["longest_ms"] for row in rows) > GOAL_MS)


if __name__ == "__main__":
    main()
