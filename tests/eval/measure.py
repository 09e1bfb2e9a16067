"""Measures one program: how often it fails by itself, what failsketch makes of it, and how long that takes."""

import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import judge

# Beyond this, an inquiry is not going to end well.
PATIENCE_SECS = 900
VARIANTS = {"static": ["control-flow", "data-flow"], "no control flow": ["control-flow"], "no data flow": ["data-flow"]}


@dataclass
class Result:
    """What is known of a program at a level. `None` is not known."""
    name: str
    level: str
    kind: str
    problem: str | None = None
    natural_rate: float | None = None
    natural_runs: int = 0
    failing_right: bool = False
    root_rank: int | None = None
    predictors: int = 0
    recurrences: int | None = None
    tracked_runs: int | None = None
    tracked_rate: float | None = None
    relevance: float | None = None
    ordering: float | None = None
    accuracy: float | None = None
    seconds: float | None = None
    to_first_failure: float | None = None
    to_stable: float | None = None
    program_share: float | None = None
    overhead: float | None = None
    without: dict = field(default_factory=dict)
    without_rank: dict = field(default_factory=dict)
    differences: list = field(default_factory=list)
    best: str = ""
    stopped: str = ""


def measure(subject, failsketch, natural_runs, out):
    result = Result(subject.name, subject.level, subject.facts["class"])
    untracked = natural(subject, natural_runs, result)
    folder = out / "runs" / f"{subject.name}.{subject.level}"
    with tempfile.TemporaryDirectory() as keep:
        keep = Path(keep) / "runs"
        sketch = inquire(subject, failsketch, keep, folder, result)
        if sketch is None:
            return result
        judged(subject, sketch, result)
        tracked = times(keep, result)
        if untracked and tracked:
            result.overhead = statistics.median(tracked) / statistics.median(untracked)
        for name, ignored in VARIANTS.items():
            again = diagnose(failsketch, keep, ignored)
            if again is not None:
                result.without[name] = judge.accuracy(subject, again)[2]
                result.without_rank[name] = judge.rank_of_root(subject, again)
    return result


def natural(subject, runs, result):
    """Runs the program alone; gives the seconds of its successful runs."""
    successes, failures, done = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            started = time.perf_counter()
            failed, what = subject.run(subject.level, folder)
            done += 1
            failures += failed
            if what == "success":
                successes.append(time.perf_counter() - started)
    result.natural_runs = done
    result.natural_rate = failures / done if done else None
    return successes


def inquire(subject, failsketch, keep, folder, result):
    """One inquiry without any option that depends on the program; what it left is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.time()
    with tempfile.TemporaryDirectory() as cwd:
        done = subprocess.run(
            [failsketch, "run", "--json", "--keep", keep, "--", *subject.command], cwd=cwd, capture_output=True,
            text=True, input=subject.facts.get("stdin", ""), timeout=PATIENCE_SECS, errors="replace")
    result.seconds = time.time() - started
    (folder / "sketch.json").write_text(done.stdout)
    (folder / "progress.txt").write_text(done.stderr)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [""]
        result.problem = f"status {done.returncode}: {last[0]}"
        return None
    result.to_stable = started + result.seconds
    return json.loads(done.stdout)


def judged(subject, sketch, result):
    result.failing_right = judge.failing_is_right(subject, sketch)
    result.root_rank = judge.rank_of_root(subject, sketch)
    result.predictors = len(sketch["predictors"])
    result.recurrences = sketch["runs"]["recurrences"]
    result.relevance, result.ordering, result.accuracy = judge.accuracy(subject, sketch)
    result.differences = judge.differences(subject, sketch)
    result.best = judge.in_words(sketch)
    result.stopped = next((n for n in reversed(sketch.get("notes", [])) if n.startswith("no more runs")), "")


def times(keep, result):
    """Reads the times of recorded runs; gives the seconds of the successful tracked ones.

    A run is recorded when it is over, so the first failure's file tells when the inquiry began."""
    records = [(path.stat().st_mtime, json.loads(path.read_text())) for path in sorted(keep.glob("[0-9]*.json"))]
    first = next(n for n, (_, record) in enumerate(records) if failed(record))
    ended, result.to_stable = result.to_stable, None
    since = records[first][0]
    after = [record for _, record in records[first + 1:]]
    running = sum(record["elapsed_ns"] for record in after) / 1e9
    result.to_first_failure = max(0.0, result.seconds - (ended - since))
    result.to_stable = max(ended - since, 1e-9)
    result.program_share = min(1.0, running / result.to_stable)
    result.tracked_runs = len(after)
    result.tracked_rate = sum(map(failed, after)) / len(after) if after else None
    return [r["elapsed_ns"] / 1e9 for r in after if r["end"] == "succeeded" and r["data_flow"]]


def failed(record):
    return isinstance(record["end"], dict)


def diagnose(failsketch, keep, ignored):
    """The sketch again from the same runs, as if part of what they showed had not been seen."""
    options = [word for what in ignored for word in ("--ignore", what)]
    done = subprocess.run([failsketch, "diagnose", "--json", *options, keep], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None
