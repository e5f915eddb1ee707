"""grammar.py [--json FILE] - masks of grammars: ours and llguidance's in turns, over MaskBench.

Both follow the same instances, token by token, with the release's vocabulary; times are CPU time
of the thread, ours taken inside `lockstep grammar`, the other's around its call from Python, which
adds well under a microsecond. Schemas that one of the two refuses count for the other alone.
"""
import argparse
import ctypes
import gzip
import json
import os
import subprocess
import tempfile
import time

TOKENIZER = "build/golden/deepseek_tokenizer.json"
SCHEMAS = "tests/golden/grammar/maskbench.jsonl.gz"


def percentile(values, part):
    return sorted(values)[int((len(values) - 1) * part)] if values else 0.0


def figures(values):
    return {"avg": sum(values) / max(len(values), 1), "p50": percentile(values, 0.5),
            "p99": percentile(values, 0.99), "count": len(values)}


def now():
    return time.thread_time_ns() / 1e3


class Rival:
    def __init__(self):
        from llguidance import LLMatcher, LLTokenizer
        start = time.perf_counter()
        self.tokenizer = LLTokenizer(TOKENIZER)
        self.start_ms = (time.perf_counter() - start) * 1e3
        self.matcher = LLMatcher
        self.mask = bytearray((self.tokenizer.vocab_size + 31) // 32 * 4)
        self.pointer = ctypes.addressof((ctypes.c_char * len(self.mask)).from_buffer(self.mask))

    def follow(self, matcher, tokens, masks, first):
        for token in tokens:
            start = now()
            matcher.unsafe_compute_mask_ptr(self.pointer, len(self.mask))
            took = now() - start
            if first is None:
                masks.append(took)
            else:
                first.append(took)
                first = None
            if not matcher.consume_token(token):
                return False
        return matcher.is_accepting()

    def run(self, lines):
        masks, firsts, passing, refused, valid_refused, accepted = [], [], 0, 0, 0, 0
        for line in lines:
            good, fresh = True, True
            text = json.dumps(line["schema"])
            for test in line["tests"] or [None]:
                start = now()
                grammar = self.matcher.grammar_from_json_schema(
                    text, defaults={"item_separator": ", ", "key_separator": ": ",
                                    "whitespace_flexible": False}, overrides=None)
                matcher = self.matcher(self.tokenizer, grammar)
                compiled = now() - start
                if matcher.is_error():
                    refused += 1
                    good = False
                    break
                if test is None:
                    break
                first = []
                data = json.dumps(test["data"], ensure_ascii=False)
                said = self.follow(matcher, self.tokenizer.tokenize_str(data), masks,
                                   first if fresh else None)
                if first:
                    firsts.append(compiled + first[0])
                fresh = False
                if said != test["valid"]:
                    good = False
                    valid_refused += test["valid"]
                    accepted += not test["valid"]
            passing += good
        return {"passing": passing, "refused": refused, "valid_refused": valid_refused,
                "invalid_accepted": accepted, "vocabulary_ms": self.start_ms,
                "mask_us": figures(masks), "compile_and_first_mask_us": figures(firsts)}


def ours(lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        file.flush()
        run = subprocess.run([os.environ.get("LOCKSTEP", "build/release/lockstep"), "grammar",
                              file.name, "--json", "--model", TOKENIZER], check=False,
                             stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--step", type=int, default=1, help="every n-th schema")
    options = parser.parse_args()
    with gzip.open(SCHEMAS, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][::options.step]
    rival, parts = Rival(), 4
    table = {"ours": [], "llguidance": []}
    for part in range(parts): # in turns, so that a busy machine moves both
        table["ours"].append(ours(lines[part::parts]))
        table["llguidance"].append(rival.run(lines[part::parts]))
    print(f"{'us':12}{'pass':>6}{'refused':>9}{'bad':>5}   mask avg    p50     p99   "
          "compile and first mask p50      p99  start, ms")
    result = {}
    for name, rows in table.items():
        total = {key: sum(row[key] for row in rows)
                 for key in ("passing", "refused", "invalid_accepted")}
        mean = {}
        for what in ("mask_us", "compile_and_first_mask_us"):
            for key in ("avg", "p50", "p99"): # of parts: by their number of masks
                count = sum(row[what]["count"] for row in rows)
                mean[what, key] = sum(row[what][key] * row[what]["count"] for row in rows) / count
        print(f"{name:12}{total['passing']:6}{total['refused']:9}{total['invalid_accepted']:5}"
              f"{mean['mask_us', 'avg']:11.1f}{mean['mask_us', 'p50']:7.1f}"
              f"{mean['mask_us', 'p99']:8.1f}{mean['compile_and_first_mask_us', 'p50']:29.0f}"
              f"{mean['compile_and_first_mask_us', 'p99']:9.0f}{rows[-1]['vocabulary_ms']:10.0f}")
        result[name] = total | {f"{what} {key}": value for (what, key), value in mean.items()}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


main()
