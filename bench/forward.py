"""forward.py MODEL BENCH_FORWARD [--threads N] [--turns N] [--json FILE] [--llama PROGRAM GGUF]

The forward pass on the CPU against transformers (float32, as many threads) and, if it is there,
llama.cpp. All load the same checkpoint. Engines take turns within one run; a row is the median of
the turns' ratios, and the best time of each. transformers must answer with the same tokens, or the
comparison is none.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import transformers
from transformers import DeepseekV4ForCausalLM, FineGrainedFP8Config

PROMPT, STEPS = 512, 16
CASES = [("prefill 512", 1, 3.0), ("decode, batch 1", 1, 10.0), ("decode, batch 8", 8, 10.0)]


class Lockstep:
    """The program bench_forward, which answers one line with one line."""

    def __init__(self, program, model, cache, threads):
        self.process = subprocess.Popen([program, model, cache, str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def turn(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        seconds, digest = self.process.stdout.readline().split()
        return float(seconds), int(digest)

    def prefill(self):
        return self.turn(f"prefill {PROMPT}")

    def decode(self, batch):
        return self.turn(f"decode {batch} {STEPS}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Transformers:
    def __init__(self, model):
        self.model = DeepseekV4ForCausalLM.from_pretrained(
            model, dtype=torch.float32, quantization_config=FineGrainedFP8Config(dequantize=True))
        self.model.eval()
        vocabulary = self.model.config.vocab_size
        self.prompt = [(i * 37 + 11) % vocabulary for i in range(PROMPT)]

    def best_experts(self):
        """Takes the form of the experts that prefills fastest here."""
        times = {}
        for form in ("eager", "batched_mm", "grouped_mm"):
            try:
                self.model.set_experts_implementation(form)
                times[form] = min(self.prefill()[0] for _ in range(3))
            except (RuntimeError, ValueError, NotImplementedError):
                pass  # this form does not run on this machine
        form = min(times, key=times.get)
        self.model.set_experts_implementation(form)
        return form

    def feed(self, batch):
        ids = torch.tensor([self.prompt] * batch)
        return self.model(ids, use_cache=True, logits_to_keep=1)

    def prefill(self):
        with torch.inference_mode():
            start = time.perf_counter()
            token = int(self.feed(1).logits[0, -1].argmax())
            return time.perf_counter() - start, token

    def decode(self, batch):
        with torch.inference_mode():
            out, digest = self.feed(batch), 0
            ids = out.logits[:, -1].argmax(-1, keepdim=True)
            start = time.perf_counter()
            for _ in range(STEPS):
                out = self.model(ids, past_key_values=out.past_key_values, use_cache=True)
                ids = out.logits[:, -1].argmax(-1, keepdim=True)
                digest = (digest * 31 + int(ids[batch - 1])) % (1 << 32)
            return (time.perf_counter() - start) / STEPS, digest


class Llama:
    """llama-batched-bench: one run measures all three. Its tokens are random ones."""

    def __init__(self, program, gguf, threads):
        self.command = [program, "-m", gguf, "-c", str(16 * PROMPT), "-b", str(PROMPT),
                        "-ub", str(PROMPT), "-npp", str(PROMPT), "-ntg", str(STEPS), "-npl", "1,8",
                        "-t", str(threads), "-tb", str(threads), "--output-format", "jsonl"]

    def turn(self):
        run = subprocess.run(self.command, capture_output=True, text=True, check=True)
        rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        one, eight = (next(row for row in rows if row["pl"] == batch) for batch in (1, 8))
        return [one["t_pp"], one["t_tg"] / STEPS, eight["t_tg"] / STEPS]


def measure(ours, other, llama, turns):
    """times[engine][case] = seconds of each turn."""
    times = {"ours": [[], [], []], "transformers": [[], [], []], "llama.cpp": [[], [], []]}
    for _ in range(turns):
        for case, (name, batch, _) in enumerate(CASES):
            prefill = name.startswith("prefill")
            mine, same = ours.prefill() if prefill else ours.decode(batch)
            theirs, also = other.prefill() if prefill else other.decode(batch)
            if same != also:
                sys.exit(f"{name}: the engines answer with different tokens")
            times["ours"][case].append(mine)
            times["transformers"][case].append(theirs)
        for case, seconds in enumerate(llama.turn() if llama else []):
            times["llama.cpp"][case].append(seconds)
    return times


def report(times, title):
    rows = []
    print(f"{title} (milliseconds a step)")
    print(f"{'':36} {'ours':>10} {'other':>10} {'ratio':>8} {'goal':>6}")
    for engine in ("transformers", "llama.cpp"):
        for case, (name, _, goal) in enumerate(CASES):
            ours, other = times["ours"][case], times[engine][case]
            if not other:
                continue
            goal = goal if engine == "transformers" else 1.0
            ratio = statistics.median(b / a for a, b in zip(ours, other))
            row = {"name": f"{name}, {engine}", "ours": min(ours) * 1e3, "other": min(other) * 1e3,
                   "ratio": ratio, "goal": goal}
            rows.append(row)
            print(f"{row['name']:36} {row['ours']:10.3f} {row['other']:10.3f} {ratio:8.3f} "
                  f"{goal:6.2f}{'  missed' if ratio < goal else ''}")
    missed = sum(row["ratio"] < row["goal"] for row in rows)
    print(f"{len(rows)} rows, {missed} goals missed")
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("program")
    parser.add_argument("--cache", default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--json")
    parser.add_argument("--llama", nargs=2, metavar=("PROGRAM", "GGUF"))
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    other = Transformers(a.model)
    form = other.best_experts()
    ours = Lockstep(a.program, a.model, a.cache, a.threads)
    llama = Llama(*a.llama, a.threads) if a.llama else None
    title = (f"forward, {a.threads} threads, cache {a.cache}, against transformers "
             f"{transformers.__version__} (torch {torch.__version__}, experts {form})")
    rows = report(measure(ours, other, llama, a.turns), title)
    ours.close()
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"title": title, "unit": "ms", "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
