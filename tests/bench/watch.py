"""What watching a variable costs: a hit in each mode beside gdb's hardware watchpoint and beside the bare trap, and
a watchpoint that is never hit.

The cost of a hit is the time of a loop that writes the variable, watched, less the time unwatched, by write.
Contestants take turns; the best turn of each counts. All of them watch writes, as gdb's `watch` does, except where
it says reads too.

Like is compared with like. Against those who stop the program, time by the clock counts: on a busy machine a loop
that is never stopped gets a smaller share of it than one that mostly waits, so that these ratios are too small
there. Against the bare trap, which does not stop it either, the program's own time on a processor counts, which
others do not change.
"""

import json
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMPUTED, WRITTEN, WRITTEN_UNDER_GDB = 200_000_000, 20_000, 1_500
MIN_TO_GDB, MIN_TO_COMPAT, MAX_TO_TRAP, MAX_UNTOUCHED = 10, 1.5, 1.4, 1.03
GDB_SCRIPT = """set pagination off
set debuginfod enabled off
tbreak main
run 0 {} < /dev/null
watch shared
commands
silent
continue
end
continue
"""


def start(*words):
    return subprocess.Popen([str(word) for word in words], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def line_of(pipe, beginning):
    for line in pipe:
        if line.startswith(beginning):
            return line.split()[1:]
    raise SystemExit(f"bench: no line {beginning!r}")


class Bench:
    """The program to watch and those who watch it."""

    def __init__(self, folder, failsketch, trap):
        self.program, self.failsketch, self.trap = folder / "hits", failsketch, trap
        subprocess.run(["gcc", "-O2", "-g", HERE / "hits.c", "-o", self.program], check=True)

    def attached(self, computed, written, watcher):
        """Times of a run that somebody watches who is started by `watcher(pid, address)` and then ended."""
        target = start(self.program, computed, written)
        address = line_of(target.stdout, "ready")[0]
        finish = watcher(target.pid, address)
        target.stdin.close()
        times = [int(word) for word in line_of(target.stdout, "times")]
        target.wait()
        finish(written)
        return times

    def unwatched(self, computed, written):
        return self.attached(computed, written, lambda pid, address: lambda hits: None)

    def by_failsketch(self, mode, *options, variable="shared"):
        def watcher(pid, _):
            output = tempfile.TemporaryFile("w+")
            words = [self.failsketch, "watch", "--pid", pid, "--mode", mode, "--var", variable, "--json", *options]
            process = subprocess.Popen([str(word) for word in words], text=True, stdout=output, stderr=subprocess.PIPE)
            line_of(process.stderr, "failsketch: watching")

            def finish(written):
                process.wait()
                output.seek(0)
                check_summary(output.read(), written if variable == "shared" else 0)
            return finish
        return watcher

    def by_trap(self, pid, address):
        process = start(self.trap, pid, address)
        line_of(process.stdout, "armed")

        def finish(written):
            process.stdin.close()
            hits = int(line_of(process.stdout, "hits")[0])
            assert hits == written, f"{hits} traps of {written} writes"
            process.wait()
        return finish

    def launched(self, mode, written):
        output = tempfile.TemporaryFile("w+")
        words = [self.failsketch, "watch", "--mode", mode, "--var", "shared", "--writes", "--json", "--",
                 self.program, "0", written]
        process = subprocess.Popen([str(word) for word in words], text=True, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.PIPE)
        times = [int(word) for word in line_of(process.stderr, "times")]
        process.communicate()
        output.seek(0)
        check_summary(output.read(), written)
        return times

    def under_gdb(self, written):
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
            script.write(GDB_SCRIPT.format(written))
            script.flush()
            process = start("gdb", "-nx", "-batch", "-x", script.name, self.program)
            times = [int(word) for word in line_of(process.stdout, "times")]
            process.communicate()
        return times


def check_summary(output, written):
    """A fast watch that misses accesses is no result."""
    summary = json.loads(output.splitlines()[-1])["summary"]
    assert summary["hits"] + summary["lost"] == written, summary
    assert summary["lost"] * 100 <= written, f"too many accesses lost: {summary}"


def measure(folder, failsketch, trap, turns):
    bench = Bench(folder, failsketch, trap)
    watched = lambda *how: lambda: bench.attached(0, WRITTEN, bench.by_failsketch(*how))
    contestants = {
        "unwatched": lambda: bench.unwatched(0, WRITTEN),
        "bare trap": lambda: bench.attached(0, WRITTEN, bench.by_trap),
        "observe": watched("observe", "--writes"),
        "observe, reads too": watched("observe"),
        "exact": watched("exact", "--writes"),
        "exact, launched": lambda: bench.launched("exact", WRITTEN),
        "compat, launched": lambda: bench.launched("compat", WRITTEN),
        "gdb": lambda: bench.under_gdb(WRITTEN_UNDER_GDB),
    }
    untouched = lambda mode: lambda: bench.attached(COMPUTED, 0, bench.by_failsketch(mode, variable="untouched"))
    loops = {
        "unwatched": lambda: bench.unwatched(COMPUTED, 0),
        "observe": untouched("observe"),
        "exact": untouched("exact"),
    }
    return {"writes": take_turns(contestants, turns), "untouched": take_turns(loops, turns)}


def take_turns(contestants, turns):
    """The nanoseconds of all turns: of the computing loop and the writing one, by the clock, then on the processor."""
    results = {name: [] for name in contestants}
    for _ in range(turns):
        for name, run in contestants.items():
            results[name].append(run())
    return results


def costs_of_a_hit(turns, column):
    count = lambda name: WRITTEN_UNDER_GDB if name == "gdb" else WRITTEN
    best = {name: min(times[column] for times in all) / count(name) for name, all in turns.items()}
    return {name: (time - best["unwatched"]) / 1000 for name, time in best.items() if name != "unwatched"}


def report(results, verdict):
    clock, processor = (costs_of_a_hit(results["writes"], column) for column in (1, 3))
    print("\nA write to a watched variable, best of the turns: microseconds a hit")
    print(f"{'':19} {'by the clock':>13} {'to observe':>11} {'on its processor':>17} {'to bare trap':>13}")
    for name, cost in clock.items():
        print(f"{name:19} {cost:13.2f} {cost / clock['observe']:11.2f} {processor[name]:17.2f} "
              f"{processor[name] / processor['bare trap']:13.2f}")
    to_gdb, to_compat = (clock[name] / clock["observe"] for name in ("gdb", "compat, launched"))
    verdict("gdb's cost of a hit to observe's", to_gdb, to_gdb >= MIN_TO_GDB, f"at least {MIN_TO_GDB}")
    verdict("compat's cost of a hit to observe's", to_compat, to_compat >= MIN_TO_COMPAT, f"at least {MIN_TO_COMPAT}")
    for name in ("observe", "observe, reads too"):
        to_trap = processor[name] / processor["bare trap"]
        verdict(f"cost of a hit to a bare trap's: {name}", to_trap, to_trap <= MAX_TO_TRAP, f"at most {MAX_TO_TRAP}")
    for mode in ("observe", "exact"):
        loops = {name: min(times[2] for times in all) for name, all in results["untouched"].items()}
        share = loops[mode] / loops["unwatched"]
        verdict(f"a loop with a watchpoint that is never hit: {mode}", share, share <= MAX_UNTOUCHED,
                f"at most {MAX_UNTOUCHED}, which is noise")
