#!/usr/bin/env bash
# A parallel compressor that frees its queue's mutex too early: runs it until it is known why; then what a core alone
# tells. Then a server whose threads share an index: shows who reads and writes it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "Building failsketch and the programs"
cargo build --quiet --release -j2 --package cli
make -s -C tests/zoo build/O2/pbzip2-queue build/O2/apache-log-index
program=tests/zoo/build/O2/pbzip2-queue
failsketch=target/release/failsketch

say "Why does it crash now and then? failsketch run -- $program"
"$failsketch" run -- "$program" </dev/null

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Cores are files here, unless the kernel hands them to a program: then gdb writes one.
crash() {
    case $(cat /proc/sys/kernel/core_pattern) in
    '|'* | /*) gdb -nx -batch -ex run -ex 'generate-core-file core' "$root/$program" >/dev/null 2>&1 || true ;;
    *) (ulimit -c unlimited && exec "$root/$program") >/dev/null 2>&1 || true ;;
    esac
}

say "And if there is only a core? Running $program (built with -O2 -g) until it leaves one"
runs=0 core=
while [ -z "$core" ]; do
    [ $runs -lt 400 ] || { echo "no core in $runs runs: is the hard limit on cores 0?" >&2; exit 1; }
    (cd "$scratch" && crash) 2>/dev/null
    core=$(find "$scratch" -name 'core*' -print -quit)
    runs=$((runs + 1))
done
echo "It crashed in run $runs and left a core."

say "failsketch triage core --exe $program"
"$failsketch" triage "$core" --exe "$program"

say "The same from the text that gdb prints for bt: failsketch triage bt.txt --exe $program"
gdb -nx -batch -ex bt "$program" "$core" >"$scratch/bt.txt" 2>/dev/null
sed -n '/^.Current thread/,$p' "$scratch/bt.txt" | grep '^#'
echo
"$failsketch" triage "$scratch/bt.txt" --exe "$program" | sed -n '1,2p;/^Static sketch/,$p'

server=tests/zoo/build/O2/apache-log-index
say "Who reads and writes a variable of a running program? failsketch watch --var access_log.used -- $server"
"$failsketch" watch --var access_log.used -- "$server" 2>&1 || true
