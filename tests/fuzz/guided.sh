#!/bin/bash
# guided.sh crowd|codec - so many runs of a coverage-guided fuzzer, the same ones on every machine. With LOCKSTEP_LONG=1
# half an hour each, from what the last such run had found on. What it finds is left in build/fuzz as found-*.
set -u
name=$1 corpus=$LOCKSTEP_BUILD/corpus-$1
case $name in
crowd) runs=${LOCKSTEP_FUZZ_RUNS:-1500} length=600 ;;
codec) runs=200000 length=400 ;;
esac
limits=(-runs="$runs" -seed=1)
if [ "${LOCKSTEP_LONG:-}" = 1 ]; then
    limits=(-max_total_time=1800)
else
    corpus=$(mktemp -d)
    trap 'rm -rf "$corpus"' EXIT
fi
mkdir -p "$corpus"
# Random bytes are valid scripts; a few short and long ones are all the corpus that it begins with.
for seed in 1 2 3 4 5 6 7 8; do
    awk -v seed=$seed -v count=$((length * seed / 8)) 'BEGIN {
        for (srand(seed); count-- > 0;) printf "%c", rand() < seed / 10 ? 0 : 1 + int(rand() * 127) }' >"$corpus/seed-$seed"
done
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:quarantine_size_mb=16"
exec 2>&1
"$LOCKSTEP_BUILD/tests/fuzz_$name" -max_len=$length -timeout=60 -rss_limit_mb=3000 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$LOCKSTEP_BUILD/found-" "${limits[@]}" "$corpus"
