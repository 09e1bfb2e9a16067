#!/usr/bin/env python3
"""The benchmarks: from a core to the first causes beside gdb's `bt`, at three sizes of the program; the
thread-ICFG of whole programs; what watching a variable costs, beside gdb's watchpoints; traces of real
processors decoded, beside libipt; and a long sketch in each form. Prints tables; everything measured is in target/bench.json.

Times are ratios within one run: contestants take turns, and the best of several turns counts, so that a busy
machine costs turns and not truth.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import flow
import service
import subjects
import traces
import watch

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target"
FAILSKETCH = TARGET / "release/failsketch"
MAX_SHARE_OF_GDB, MAX_MEMORY_MB, MIN_MB_PER_SECOND = 0.5, 400, 20
PARTS = ["core", "icfg", "watch", "pt", "flow", "render", "service"]
# What the rest of the program may add to the cost of the same answer, from the smallest to the largest.
MAX_GROWTH = 1.25
MAX_HTML_MS, MAX_HTML_KB = 50, 300
MAX_INTERACTIVE_MS = 1000


def measure(words):
    """Seconds, peak megabytes and output of a command."""
    started = time.perf_counter()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench: {words[0]} ended with status {process.returncode}")
    return {"seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1024,
            "read_mb": usage.ru_inblock * 512 / 1e6}, output


def instructions(words):
    """What a command executes, in millions of instructions: a figure that no other load on the machine changes. Counted
    by valgrind, which every machine can run; few virtual ones let the processor count."""
    if shutil.which("valgrind") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        counted = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *map(str, words)]
        log = subprocess.run(counted, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    return int(re.search(r"Collected : (\d+)", log)[1]) / 1e6


def can_drop_caches():
    return os.access("/proc/sys/vm/drop_caches", os.W_OK)


def drop_caches():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def take_turns(commands, turns, cold):
    """The best of several turns for each command; memory is the worst of them."""
    best = {}
    for _ in range(turns):
        for name, words in commands.items():
            if cold:
                drop_caches()
            result, output = measure(words)
            check_output(name, output)
            known = best.setdefault(name, {**result, "all": []})
            known["all"].append(round(result["seconds"], 4))
            known["seconds"] = min(known["seconds"], result["seconds"])
            known["cpu_seconds"] = min(known["cpu_seconds"], result["cpu_seconds"])
            known["mb"] = max(known["mb"], result["mb"])
            known["read_mb"] = min(known["read_mb"], result["read_mb"])
    return best


def check_output(name, output):
    """A fast wrong answer is no result: both must have found the crash."""
    if name == "gdb":
        assert b"charge" in output and b"settle" in output, "gdb did not print the stack"
    else:
        found = json.loads(output)
        assert found["criterion"]["function"] == "charge", found["criterion"]
        assert len(found["statements"]) >= 12, f"only {len(found['statements'])} statements"


def commands(program, core):
    return {
        "failsketch": [FAILSKETCH, "slice", "--core", core, "--exe", program, "--max", "16", "--json"],
        "gdb": ["gdb", "-nx", "-batch", "-iex", "set index-cache enabled off", "-iex", "set debuginfod enabled off",
                "-ex", "bt", "-c", core, program],
    }


def from_core(programs, turns):
    results = []
    for name, program in programs.items():
        core = subjects.crash(program)
        debug, code = subjects.section_sizes(program)
        row = {"subject": name, "debug_mb": debug / 1e6, "code_mb": code / 1e6}
        row["warm"] = take_turns(commands(program, core), turns, cold=False)
        if can_drop_caches():
            row["cold"] = take_turns(commands(program, core), turns, cold=True)
        row["instructions"] = instructions(commands(program, core)["failsketch"])
        results.append(row)
    return results


def print_from_core(rows):
    print("\nFrom a core to the first 16 statements (failsketch) and to a backtrace (gdb), best of the turns")
    print(f"{'debug MB':>9} {'':5} {'failsketch s':>13} {'cpu s':>6} {'MB':>5} {'read MB':>8} {'gdb s':>8} {'MB':>5} "
          f"{'share of gdb':>13}")
    for row in rows:
        for state in ("cold", "warm"):
            if state not in row:
                continue
            ours, gdb = row[state]["failsketch"], row[state]["gdb"]
            print(f"{row['debug_mb']:9.1f} {state:5} {ours['seconds']:13.3f} {ours['cpu_seconds']:6.3f} {ours['mb']:5.0f} "
                  f"{ours['read_mb']:8.1f} {gdb['seconds']:8.3f} {gdb['mb']:5.0f} {ours['seconds'] / gdb['seconds']:13.3f}")
    if not can_drop_caches():
        print("SKIPPED cold runs: dropping the page cache needs root")
    state = "cold" if "cold" in rows[-1] else "warm"
    last = rows[-1][state]["failsketch"]
    share = last["seconds"] / rows[-1][state]["gdb"]["seconds"]
    verdict("time of gdb's, large, " + state, share, share <= MAX_SHARE_OF_GDB, f"at most {MAX_SHARE_OF_GDB}")
    verdict("memory, large, MB", last["mb"], last["mb"] <= MAX_MEMORY_MB, f"at most {MAX_MEMORY_MB}")
    size = rows[-1]["debug_mb"] / rows[0]["debug_mb"]
    for state in ("cold", "warm"):
        if state not in rows[0]:
            continue
        first, last = rows[0][state]["failsketch"], rows[-1][state]["failsketch"]
        for what in ("seconds", "cpu_seconds", "mb"):
            growth = last[what] / first[what]
            verdict(f"growth of {what}, {state}, for {size:.1f} times the debug information", growth,
                    growth <= MAX_GROWTH, f"at most {MAX_GROWTH}")
    counted = [row["instructions"] for row in rows]
    if None in counted:
        print("SKIPPED instruction counts: valgrind is not installed")
        return
    print("  millions of instructions, warm: " + ", ".join(f"{count:.0f}" for count in counted))
    growth = counted[-1] / counted[0]
    verdict(f"growth of instructions for {size:.1f} times the debug information", growth, growth <= MAX_GROWTH,
            f"at most {MAX_GROWTH}")


def icfg(files, turns):
    rows = []
    for file in files:
        words = ["cargo", "bench", "--quiet", "-p", "failsketch-tests", "--bench", "icfg", "--", turns, file]
        output = subprocess.run([str(word) for word in words], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        rows.append(json.loads(output))
    return rows


def print_icfg(rows):
    print("\nThread-ICFG of whole programs, best of the turns")
    print(f"{'code MB':>8} {'functions':>10} {'nodes':>9} {'edges':>9} {'seconds':>8} {'MB/s':>6} {'peak MB':>8}  file")
    for row in rows:
        print(f"{row['code_mb']:8.1f} {row['functions']:10} {row['nodes']:9} {row['edges']:9} {row['seconds']:8.3f} "
              f"{row['mb_per_second']:6.1f} {row['peak_mb']:8.0f}  {Path(row['file']).name}")
    slowest = min(row["mb_per_second"] for row in rows)
    verdict("slowest, MB/s", slowest, slowest >= MIN_MB_PER_SECOND, f"at least {MIN_MB_PER_SECOND}")


def render(turns):
    """A sketch of 500 steps in each form."""
    words = [bench_binary("render"), str(turns), str(ROOT / "sketch-render/tests/golden/sketches/many-steps.json")]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def print_render(row):
    print(f"\nA sketch of {row['steps']} steps in each form, best of the turns, in milliseconds")
    print("  " + ", ".join(f"{name} {row[f'{name}_ms']:.2f}" for name in ("html", "term", "md", "json", "sarif")))
    verdict("HTML, ms", row["html_ms"], row["html_ms"] < MAX_HTML_MS, f"under {MAX_HTML_MS}")
    verdict("page interactive in Chromium, ms", row["interactive_ms"], row["interactive_ms"] < MAX_INTERACTIVE_MS,
            f"under {MAX_INTERACTIVE_MS}")
    verdict("HTML, kB", row["html_bytes"] / 1e3, row["html_bytes"] < MAX_HTML_KB * 1e3, f"under {MAX_HTML_KB}")


def bench_binary(name):
    """The path of a benchmark that is a program of its own."""
    words = ["cargo", "bench", "--quiet", "--no-run", "-p", "failsketch-tests", "--bench", name, "--message-format=json"]
    built = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = (json.loads(line) for line in built.splitlines())
    return next(item["executable"] for item in artifacts
                if item["reason"] == "compiler-artifact" and item["target"]["name"] == name)


def verdict(what, value, holds, wanted):
    print(f"  {'ok    ' if holds else 'MISSED'} {what}: {value:.3g} (wanted: {wanted})")


def large_files(programs):
    found = [programs["large"], Path("/usr/bin/gdb")]
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
    found += list(Path(sysroot).glob("lib/librustc_driver*.so"))[:1]
    return [path for path in found if path.exists()]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--only", choices=PARTS)
    arguments.add_argument("--no-build", action="store_true", help="measure the failsketch that is there")
    options = arguments.parse_args()
    if not options.no_build:
        subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "cli"], cwd=ROOT, check=True)
    wanted = [options.only] if options.only else PARTS
    results = {"cpus": os.cpu_count(), "load_before": os.getloadavg(), "turns": options.turns}
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {options.turns} turns each")
    if "core" in wanted or "icfg" in wanted:
        programs = subjects.all_subjects(TARGET / "bench", os.cpu_count() or 1)
    if "core" in wanted:
        results["core"] = from_core(programs, options.turns)
        print_from_core(results["core"])
    if "icfg" in wanted:
        results["icfg"] = icfg(large_files(programs), min(options.turns, 3))
        print_icfg(results["icfg"])
    if "watch" in wanted:
        (TARGET / "bench").mkdir(parents=True, exist_ok=True)
        results["watch"] = watch.measure(TARGET / "bench", FAILSKETCH, bench_binary("trap"), options.turns)
        watch.report(results["watch"], verdict)
    if "pt" in wanted:
        results["pt"] = traces.measure(ROOT, bench_binary("pt"), options.turns * 6)
        traces.report(results["pt"], verdict)
    if "flow" in wanted:
        (TARGET / "bench").mkdir(parents=True, exist_ok=True)
        results["flow"] = flow.measure(TARGET / "bench", bench_binary("flow"), options.turns)
        flow.report(results["flow"], verdict)
    if "render" in wanted:
        results["render"] = render(options.turns * 6)
        print_render(results["render"])
    if "service" in wanted:
        (TARGET / "bench").mkdir(parents=True, exist_ok=True)
        results["service"] = service.measure(TARGET / "bench", FAILSKETCH, bench_binary("ingest"), bench_binary("updates"))
        service.report(results["service"], verdict)
    results["load_after"] = os.getloadavg()
    (TARGET / "bench.json").write_text(json.dumps(results, indent=1))
    print("\neverything measured: target/bench.json")


if __name__ == "__main__":
    main()
