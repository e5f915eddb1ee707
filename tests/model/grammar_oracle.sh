#!/bin/sh
# grammar_oracle.sh - JSON schemas as grammars, held to MaskBench's verdicts and to the jsonschema package.
python=$(tools/venv jsonschema fqdn rfc3339-validator isoduration rfc3986-validator) || { echo "$python"; exit 77; }
exec "$python" tests/model/grammar_oracle.py "$LOCKSTEP_BUILD"
