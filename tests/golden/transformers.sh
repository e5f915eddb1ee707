#!/bin/sh
# transformers.sh MODELS - the engine held to transformers, on that many random small models.
python=$(tools/venv torch transformers safetensors) || exit $?
exec "$python" tests/golden/transformers_check.py "$LOCKSTEP_BUILD/lockstep" "$1"
