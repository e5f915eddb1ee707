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
CASES = [("prefill 512", 0, 3.0), ("decode, batch 1", 1, 10.0), ("decode, batch 8", 8, 10.0)]


class Program:
    """bench_forward or llama_forward, which answer one line with one line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def turn(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            sys.exit(f"{self.process.args[0]} ended")
        return float(answer[0]), int(answer[1])

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
        for form in ("eager", "grouped_mm"):  # batched_mm copies the weights of every row
            try:
                self.model.set_experts_implementation(form)
                times[form] = min(self.prefill()[0] for _ in range(2))
            except (RuntimeError, ValueError, NotImplementedError):
                pass  # this form does not run on this machine
        form = min(times, key=times.get)
        self.model.set_experts_implementation(form)
        return form

    def close(self):
        pass

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


def measure(engines, turns):
    """times[engine][case] = seconds of each turn. llama.cpp rounds weights and inputs to 8 bits, so
    only its first token must be the same."""
    times = {engine: [[] for _ in CASES] for engine in engines}
    for _ in range(turns):
        for case, (name, batch, _) in enumerate(CASES):
            answers = {}
            for engine, it in engines.items():
                seconds, answers[engine] = it.decode(batch) if batch else it.prefill()
                times[engine][case].append(seconds)
            for engine, answer in answers.items():
                if answer != answers["ours"] and not (batch and engine == "llama.cpp"):
                    sys.exit(f"{name}: {engine} answers with other tokens")
    return times


def report(times, title):
    rows = []
    print(f"{title} (milliseconds a step)")
    print(f"{'':36} {'ours':>10} {'other':>10} {'ratio':>8} {'goal':>6}")
    for engine in ("transformers", "llama.cpp"):
        for case, (name, _, goal) in enumerate(CASES):
            if engine not in times:
                continue
            ours, other = times["ours"][case], times[engine][case]
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
    engines = {"ours": Program(a.program, a.model, a.cache, str(a.threads)), "transformers": other}
    if a.llama:
        engines["llama.cpp"] = Program(*a.llama, str(a.threads))
    title = (f"forward, {a.threads} threads, cache {a.cache}, against transformers "
             f"{transformers.__version__} (torch {torch.__version__}, experts {form})")
    rows = report(measure(engines, a.turns), title)
    for engine in engines.values():
        engine.close()
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"title": title, "unit": "ms", "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
