#!/usr/bin/env python3
"""The evaluation: how good failure sketches are, and what they cost, for the zoo or any folders of programs with facts.

Each program is run until it fails and its sketch is stable, with no option that depends on it; the sketch is judged by
the facts. Tables go to the terminal and to target/eval/table.txt, everything to target/eval/eval.csv, plots to
target/eval/*.svg, sketches and what was said on the way to target/eval/runs.

What part of the answer comes from where is found out by making the sketch again from the same recorded runs as if their
control flow, or their data flow, or both (leaving the static slice) had not been recorded.
"""

import argparse
import concurrent.futures
import csv
import statistics
import subprocess
import sys
from pathlib import Path

import measure
import plots
import programs

ROOT = programs.ROOT
OUT = ROOT / "target/eval"
MIN_ACCURACY, MAX_RECURRENCES, MAX_SECONDS = 0.96, 5, 20.0


def percent(value):
    return "-" if value is None else f"{100 * value:.0f}%"


def number(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


COLUMNS = [
    ("program", lambda r: r.name), ("level", lambda r: r.level), ("class", lambda r: r.kind),
    ("fails", lambda r: percent(r.natural_rate)), ("tracked", lambda r: percent(r.tracked_rate)),
    ("at", lambda r: "ok" if r.failing_right else "WRONG"),
    ("root", lambda r: "none" if r.root_rank is None else str(r.root_rank)),
    ("A_R", lambda r: percent(r.relevance)), ("A_O", lambda r: percent(r.ordering)), ("A", lambda r: percent(r.accuracy)),
    ("static", lambda r: percent(r.without.get("static"))),
    ("-flow", lambda r: percent(r.without.get("no control flow"))),
    ("-data", lambda r: percent(r.without.get("no data flow"))),
    ("recur", lambda r: "-" if r.recurrences is None else str(r.recurrences)),
    ("runs", lambda r: "-" if r.tracked_runs is None else str(r.tracked_runs)),
    ("secs", lambda r: number(r.to_stable)), ("program", lambda r: percent(r.program_share)),
    ("cost", lambda r: "-" if r.overhead is None else f"{r.overhead:.2f}x"),
]
LEGEND = """fails: without us, of {runs} runs; tracked: while tracked; at: the failing statement; root: the rank of the root cause;
A_R, A_O, A: relevance, ordering and overall accuracy against the ideal sketch; static: accuracy of the static slice alone,
-flow: without control flow, -data: without data flow; recur: recurrences until the sketch was stable; runs: tracked runs;
secs: from the first failure to the stable sketch, and the program's share of them; cost: tracked / untracked run time"""


def table(results):
    cells = [[name for name, _ in COLUMNS], *[[show(r) for _, show in COLUMNS] for r in results]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    left = {0, 1, 2}
    lines = ("  ".join(cell.ljust(w) if n in left else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths)))
             for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def summary(results):
    """The claims, each with what was measured."""
    good = [r for r in results if r.problem is None]
    accuracies = [r.accuracy for r in good]
    times = [r.to_stable for r in good if r.to_stable is not None]
    shares = [r.program_share for r in good if r.program_share is not None]
    mean = sum(accuracies) / len(results)
    median = statistics.median(times) if times else None
    most = max((r.recurrences for r in good), default=0)
    roots, failing = sum(r.root_rank == 1 for r in results), sum(r.failing_right for r in results)
    claims = [
        (f"the failing statement is right in {failing} of {len(results)}", failing == len(results)),
        (f"the first predictor is the root cause in {roots} of {len(results)}", roots == len(results)),
        (f"average accuracy {percent(mean)} (at least {percent(MIN_ACCURACY)})", mean >= MIN_ACCURACY),
        (f"at most {most} recurrences (at most {MAX_RECURRENCES})", most <= MAX_RECURRENCES),
        (f"median {number(median)} s from the first failure to a stable sketch (under {MAX_SECONDS:.0f} s), "
         f"{percent(statistics.median(shares) if shares else None)} of it the program's",
         median is not None and median < MAX_SECONDS),
    ]
    lines = [("ok      " if holds else "MISSED  ") + what for what, holds in claims]
    return "\n".join(lines), all(holds for _, holds in claims)


def remarks(results):
    """Whatever is not as it should be, by program."""
    lines = []
    for r in results:
        problems = [r.problem] if r.problem else []
        if not r.problem and r.root_rank != 1:
            problems.append(f"first predictor: {r.best}")
        if r.accuracy is not None and r.accuracy < MIN_ACCURACY and r.differences:
            problems.append("; ".join(r.differences))
        lines += [f"{r.name} {r.level}: {problem}" for problem in problems]
    return "\n".join(lines)


def write_csv(path, results):
    variants = list(measure.VARIANTS)
    plain = [f for f in measure.Result.__dataclass_fields__ if f not in ("without", "without_rank", "differences")]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*plain, *[f"accuracy: {v}" for v in variants], *[f"root_rank: {v}" for v in variants], "differences"])
        for r in results:
            out.writerow([*[getattr(r, f) for f in plain], *[r.without.get(v) for v in variants],
                          *[r.without_rank.get(v) for v in variants], "; ".join(r.differences)])


def plot(results, levels):
    names = list(dict.fromkeys(r.name for r in results))
    by = {(r.name, r.level): r for r in results}

    def rows(value):
        return [(name, [value(by[name, level]) if (name, level) in by else None for level in levels]) for name in names]

    plots.bars(OUT / "accuracy.svg", "Accuracy against the ideal sketch", levels, rows(lambda r: r.accuracy), 1.0,
               line=MIN_ACCURACY)
    plots.bars(OUT / "recurrences.svg", "Recurrences until the sketch is stable", levels,
               rows(lambda r: r.recurrences), line=MAX_RECURRENCES)
    plots.bars(OUT / "time.svg", "From the first failure to a stable sketch", levels, rows(lambda r: r.to_stable),
               unit=" s", line=MAX_SECONDS)
    plots.bars(OUT / "overhead.svg", "Tracked / untracked run time", levels, rows(lambda r: r.overhead), unit="x", line=1.0)
    plots.bars(OUT / "rates.svg", "How often the program fails by itself", levels, rows(lambda r: r.natural_rate))
    variants = ["static", "no control flow", "no data flow"]
    parts = [(f"{r.name} {r.level}", [*[r.without.get(v) for v in variants], r.accuracy]) for r in results]
    plots.bars(OUT / "contributions.svg", "Accuracy without a part", [*variants, "everything"], parts, 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[programs.ZOO], metavar="FOLDER",
                        help="folders of programs with facts.toml (default: the zoo)")
    parser.add_argument("--level", default=",".join(programs.LEVELS), help="levels of optimisation, such as O0,O2")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="just this program (repeatable)")
    parser.add_argument("--runs", type=int, default=20, help="runs without us, for the natural failure rate (default 20)")
    parser.add_argument("--beside", type=int, default=1, metavar="N",
                        help="measure N programs at a time: sooner done, and times mean less")
    parser.add_argument("--failsketch", type=Path, help="this binary, instead of building one")
    options = parser.parse_args()
    failsketch = options.failsketch
    if failsketch is None:
        subprocess.run(["cargo", "build", "-q", "--release", "-j2", "-p", "cli"], cwd=ROOT, check=True)
        failsketch = ROOT / "target/release/failsketch"
    levels = options.level.split(",")
    OUT.mkdir(parents=True, exist_ok=True)
    subjects = programs.built(options.folders, levels, options.only, OUT)
    if not subjects:
        parser.error("no such program")
    programs.zoo.dump_cores(False)

    def one(subject):
        result = measure.measure(subject, failsketch.resolve(), options.runs, OUT)
        print(f"{subject.name} {subject.level}: {result.problem or result.best}", file=sys.stderr, flush=True)
        return result

    with concurrent.futures.ThreadPoolExecutor(options.beside) as pool:
        results = list(pool.map(one, subjects))
    claims, holds = summary(results)
    report = "\n\n".join(filter(None, [table(results), LEGEND.format(runs=options.runs), remarks(results), claims]))
    (OUT / "table.txt").write_text(report + "\n")
    write_csv(OUT / "eval.csv", results)
    plot(results, levels)
    print(report)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
