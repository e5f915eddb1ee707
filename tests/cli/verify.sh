#!/bin/sh
# verify.sh EQUAL_MIN ARGUMENT... - `lockstep verify` of the tiny model on its evaluation files, in the
# given form, has at least EQUAL_MIN equal answers. The reference has 320 of 320 in float32 and bf16,
# and 315 in fp8.
minimum=$1
shift
out=$("$LOCKSTEP_BUILD/lockstep" verify model/tiny tests/golden/tiny_eval/*.jsonl "$@")
printf '%s\n' "$out"
equal=$(printf '%s\n' "$out" | sed -n 's/^\([0-9]*\) of 320 equal.*/\1/p')
[ -n "$equal" ] && [ "$equal" -ge "$minimum" ]
