#!/usr/bin/env bash
# Fuzzes the targets for some seconds: fuzz/run.sh [SECONDS] [TARGET…]. Two at a time.
# Ends with status 1 when an input makes one panic, hang or grow; the input stays in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(elf_dwarf core trace_text pt)

skip() {
    printf 'SKIPPED fuzzing of %s: %s\n' "${targets[*]}" "$1" >&2
    exit 0
}
cargo +nightly --version >/dev/null 2>&1 || skip 'no nightly toolchain (rustup toolchain install nightly)'
cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz ||
    skip 'cargo-fuzz is not there and cannot be installed'

# Everything below is safe Rust, where the address sanitizer has nothing to find: without it the build and
# the runs take a third of the time. Panics, overflows, hangs and memory are what is looked for.
fuzz=(cargo +nightly fuzz)
# A finding says where it is without debug information, of which cargo-fuzz would make hundreds of megabytes.
export CARGO_INCREMENTAL=0 RUSTFLAGS="-Cdebuginfo=0 ${RUSTFLAGS:-}"
"${fuzz[@]}" build --sanitizer none
fuzz/seeds.py
# Inputs that reach something new, thousands of them: kept for this run only. Those that find something are in
# fuzz/artifacts.
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

one() {
    local target=$1 log=fuzz/target/$1.log status=0
    mkdir -p "$new/$target" "fuzz/corpus/$target"
    # Inputs are real files with parts changed: without a bound, libFuzzer would go up to the largest seed.
    "${fuzz[@]}" run --sanitizer none "$target" "$new/$target" "fuzz/corpus/$target" -- -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -max_len=131072 -len_control=0 -print_final_stats=1 >"$log" 2>&1 || status=$?
    local runs
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ $status -ne 0 ]; then
        tail -n 60 "$log"
        # Last, and in the form that `make test` repeats at its end.
        printf 'test fuzz::%s (%s; %s) ... FAILED\n' "$target" \
            "$(grep -m1 -A1 -E 'panicked at|ERROR: libFuzzer' "$log" | paste -sd' ')" \
            "$(sed -n 's/.*Test unit written to //p' "$log")"
        return 1
    fi
    printf 'fuzz %s: %s inputs in %s s, nothing found\n' "$target" "$runs" "$seconds"
}
status=0
running=0
for target in "${targets[@]}"; do
    if [ $running -eq 2 ]; then
        wait -n || status=1
        running=1
    fi
    one "$target" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || status=1
    running=$((running - 1))
done
exit $status
