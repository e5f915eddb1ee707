#!/bin/bash
# run.sh TEST.py [PACKAGE...] - runs one end-to-end test with packages of PyPI; 77 where they cannot be had.
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
test=$1
shift
python=python3
[ $# = 0 ] || python=$(tools/venv "$@") || exit $?
PYTHONPATH=tests/e2e exec "$python" -m unittest -v "tests/e2e/$test"
