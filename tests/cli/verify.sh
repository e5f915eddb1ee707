#!/bin/sh
# verify.sh EQUAL_MIN ARGUMENT... - `lockstep verify` of the tiny model on its evaluation files, in the
# given form, has at least EQUAL_MIN equal answers. The answers were recorded with float32 rows, so only
# there must all be equal.
minimum=$1
shift
out=$("$LOCKSTEP_BUILD/lockstep" verify model/tiny tests/golden/tiny_eval/*.jsonl "$@")
printf '%s\n' "$out"
equal=$(printf '%s\n' "$out" | sed -n 's/^\([0-9]*\) of 320 equal.*/\1/p')
[ -n "$equal" ] && [ "$equal" -ge "$minimum" ]
