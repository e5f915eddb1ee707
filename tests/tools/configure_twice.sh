#!/bin/sh
# configure_twice.sh - a second configure gives the same commands as the first, so that a second ./quickstart compiles
# nothing. Exit 77 where the tools to configure are missing.
command -v ninja >/dev/null || { echo "no ninja"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
configure() {
    cmake -G Ninja -S . -B "$folder/build" -DCMAKE_BUILD_TYPE=Release >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
    cp "$folder/build/compile_commands.json" "$folder/$1"
}
configure first
configure second
diff "$folder/first" "$folder/second" | head -n 4 && cmp "$folder/first" "$folder/second"
