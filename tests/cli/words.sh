#!/bin/sh
# words.sh - what `lockstep` says to whoever does not know it yet: help as a whole and for one command, the name that
# was probably meant, and no success where nothing was compared.
lockstep=$LOCKSTEP_BUILD/lockstep
empty=$(mktemp)
trap 'rm -f "$empty"' EXIT
failed=0

# expect CODE TEXT ARGUMENT...: ends with that code, and says that text on one of its lines.
expect() {
    code=$1 text=$2
    shift 2
    out=$("$lockstep" "$@" 2>&1)
    got=$?
    if [ "$got" -ne "$code" ] || ! printf '%s\n' "$out" | grep -qF -e "$text"; then
        printf "lockstep %s: code %s, expected %s and '%s':\n%s\n" "$*" "$got" "$code" "$text" "$out"
        failed=1
    fi
}

expect 0 "usage: lockstep COMMAND" help
expect 0 "usage: lockstep COMMAND" --help
expect 2 "usage: lockstep COMMAND"
for command in check plan up down ps tap probe chat abort bench run verify sim; do
    expect 0 "  $command" help
    expect 0 "usage: lockstep $command " help "$command"
    expect 0 "usage: lockstep $command " "$command" --help
done
expect 0 "[--trace]" help sim
expect 0 "[--threads N]" help run
expect 2 "no command 'chekc'; did you mean 'check'?" chekc
expect 2 "no command 'zzzzzz'; 'lockstep help' lists all" help zzzzzz
expect 1 "no answers are recorded there" verify model/tiny "$empty"
exit $failed
