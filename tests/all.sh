#!/usr/bin/env bash
# Runs every check, goes on after one that fails, and ends with the line `N passed, N failed, N skipped`.
# A line `SKIPPED name: why` is a test, or a part of one, that could not be run on this machine.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-2}
# Everything is built once here: what makes the next build faster would only take time and gigabytes.
export CARGO_INCREMENTAL=0
# What a failing test found tells more than the way to where it says so.
export RUST_BACKTRACE=0
# What the builds, the fuzz targets and the cores of the tests take together, with something to spare.
needed_gb=10
free_gb=$(($(df --output=avail -k . | tail -n 1) / 1024 / 1024))
[ "$free_gb" -ge $needed_gb ] || echo "only $free_gb GB are free here; all checks together need up to $needed_gb GB" >&2
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0 failed=0 skipped=0
failing=()

# run NAME COMMAND…: a step of cargo tests counts its tests, any other counts as one.
run() {
    local name=$1 log="$logs/$1" status=0 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log" || status=1
    local good bad none
    good=$(sum "$log" passed) bad=$(sum "$log" failed) none=$(grep -c '^SKIPPED ' "$log")
    # A step can fail without a failed test: one that does not build, one that dies.
    [ $status -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    [ $((good + bad + none)) -gt 0 ] || good=1
    none=$((none + $(sum "$log" ignored)))
    [ "$bad" -eq 0 ] || failing+=("$name: $(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' "$log" | paste -sd' ')" "$(reasons "$log")")
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + none))
    grep '^SKIPPED ' "$log" >>"$logs/skipped"
    printf '== %s: %d s\n' "$name" $((SECONDS - start))
}

# Adds up a figure of cargo's `test result: ok. 3 passed; 0 failed; 1 ignored; …` lines.
sum() {
    grep -oE '^test result: .*' "$1" | grep -oE "[0-9]+ $2" | awk '{ n += $1 } END { print n + 0 }'
}

# What failing tests said first, short enough to be read at the end of thousands of lines.
reasons() {
    awk '/^thread .* panicked at / { print; left = 3; next } left-- > 0 { print }' "$1" | cut -c-600
}

run formatting cargo fmt --all --check
run zoo-facts make -s -C tests/zoo check
run zoo-build make -s -C tests/zoo -j"$jobs"
run zoo-code make -s -C tests/zoo code
# Everything in one build, by the compiler that is clippy as well: `cargo clippy` alone would take minutes to look at the
# dependencies again. A warning is an error, as with `make lint`.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
run build-and-clippy cargo build --quiet -j"$jobs" --workspace --all-targets
export FAILSKETCH=$PWD/target/debug/failsketch
run tests cargo test -j"$jobs" --workspace --no-fail-fast -- --test-threads "$jobs"
[ ! -x fuzz/run.sh ] || run fuzzing fuzz/run.sh "${FUZZ_SECONDS:-15}"

echo
[ ! -s "$logs/skipped" ] || cat "$logs/skipped"
printf 'FAILED %s\n%s\n' ${failing[@]+"${failing[@]}"} | grep -v '^FAILED $'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
