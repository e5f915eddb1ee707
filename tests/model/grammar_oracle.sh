#!/bin/sh
# grammar_oracle.sh - JSON schemas as grammars, held to MaskBench's verdicts and to the jsonschema package.
python=$(tools/venv jsonschema) || { echo "$python"; exit 77; }
exec "$python" tests/model/grammar_oracle.py "$LOCKSTEP_BUILD"
