#!/usr/bin/env python3
"""Checks the zoo's facts against its sources, and against real runs."""

import argparse
import concurrent.futures
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ZOO = pathlib.Path(__file__).resolve().parent
LEVELS = ["O0", "O2"]
LANGUAGES = {"c": ".c", "c++": ".cc", "rust": ".rs"}
KINDS = {"signal", "assertion", "abort", "hang"}
PATTERNS = {
    "order": {"WR", "RW", "WW"},
    "atomicity": {"RWR", "WWR", "RWW", "WRW"},
}
OTHER_CLASSES = {"multi-variable", "deadlock", "sequential", "branch"}
CLASSES = OTHER_CLASSES | {f"{k}-{p}" for k, ps in PATTERNS.items() for p in ps}
REQUIRED = ["name", "language", "sources", "after", "summary", "class", "args", "timeout_secs",
            "unreachable", "failure", "root", "ideal"]
MARKS = re.compile(r"(?:/\*|//)\s*(@[\w-]+(?:\s+@[\w-]+)*)\s*(?:\*/|$)", re.M)
FRAME = re.compile(r"^#\d+ .* at (\S+):(\d+)$", re.M)
INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\t(?:lock |rep \w* ?)?(\w+)(.*)$")
LOCATION = re.compile(r"^(inlined by )?(/[^:]*):(\d+)\b")
NOT_ACCESSES = {"lea", "nop", "nopw", "nopl"}
LOWEST_RATE, HIGHEST_RATE = 2.0, 50.0


class Program:
    def __init__(self, folder):
        self.folder = folder
        self.facts = tomllib.loads((folder / "facts.toml").read_text())
        self.name = folder.name
        self.marks = {}
        self.problems = []
        self.text = ""
        for source in self.facts.get("sources", []):
            self.read_source(source)

    def read_source(self, source):
        path = self.folder / source
        if not path.is_file():
            self.problems.append(f"source {source} does not exist")
            return
        text = path.read_text()
        self.text += text
        for number, line in enumerate(text.splitlines(), 1):
            for names in MARKS.findall(line):
                for mark in names.split():
                    if mark in self.marks:
                        self.problems.append(f"mark {mark} occurs twice")
                    self.marks[mark] = (source, number)

    def binary(self, level):
        return ZOO / "build" / level / self.name

    def check(self):
        facts = self.facts
        missing = [key for key in REQUIRED if key not in facts]
        if missing:
            self.problems.append(f"facts lack {', '.join(missing)}")
            return self.problems
        failure, root, ideal = facts["failure"], facts["root"], facts["ideal"]
        self.demand(facts["name"] == self.name, "name is not the folder's")
        ending = LANGUAGES.get(facts["language"])
        self.demand(ending is not None, f"language {facts['language']}")
        self.demand(any(s.endswith(ending or "") for s in facts["sources"]), "no source in its language")
        self.demand(facts["class"] in CLASSES, f"class {facts['class']}")
        self.demand(failure.get("kind") in KINDS, f"failure kind {failure.get('kind')}")
        if failure.get("kind") == "signal":
            self.demand(hasattr(signal, failure.get("signal", "")), "failure has no known signal")
        if failure.get("kind") == "hang":
            self.demand(len(failure.get("blocked", [])) > 0, "a hang names its blocked statements")
        pattern = "".join(s["access"] for s in root["statements"]) if self.is_race() else None
        if pattern is not None:
            self.demand(facts["class"].endswith("-" + root["pattern"]), "root pattern is not that of the class")
            self.demand(folds_to(root["statements"], root["pattern"]),
                        f"root statements {pattern} do not make {root['pattern']}")
        statements = {s["at"] for s in root["statements"]}
        statements |= set(root["failing_thread_access"])
        self.demand(4 <= len(ideal) <= 10, f"ideal sketch has {len(ideal)} statements, not 4 to 10")
        self.demand(ideal[-1]["at"] == failure["at"], "ideal sketch does not end with the failing statement")
        referred = statements | {failure["at"]} | {s["at"] for s in ideal} | set(failure.get("blocked", []))
        for mark in sorted(referred - self.marks.keys()):
            self.problems.append(f"mark {mark} is not in the sources")
        for mark in sorted(self.marks.keys() - referred):
            self.problems.append(f"mark {mark} is not used by the facts")
        threads = {s["thread"] for s in ideal + root["statements"]} | {failure.get("thread", "main")}
        for function in {failure["function"], *facts["unreachable"]} | threads:
            short = re.split(r"::", function)[-1]
            self.demand(re.search(rf"\b{re.escape(short)}\b", self.text), f"function {function} is not in the sources")
        self.demand(len(facts["unreachable"]) > 0, "no function is listed as unreachable")
        return self.problems

    def is_race(self):
        return self.facts["class"] not in OTHER_CLASSES

    def demand(self, holds, otherwise):
        if not holds:
            self.problems.append(otherwise)

    def run(self, level, folder):
        """One run: (failed as the facts say, what happened)."""
        facts, failure = self.facts, self.facts["failure"]
        process = subprocess.Popen(
            [self.binary(level), *facts["args"]], cwd=folder, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        hung = False
        try:
            _, err = process.communicate(facts.get("stdin", "").encode(), facts["timeout_secs"])
        except subprocess.TimeoutExpired:
            hung = True
            process.send_signal(signal.SIGABRT)
            _, err = process.communicate()
        status, err = process.returncode, err.decode(errors="replace")
        if hung:
            return failure["kind"] == "hang", "hang"
        if status == 0:
            return False, "success"
        what = signal.Signals(-status).name if status < 0 else f"exit {status}"
        if failure.get("message", "") not in err:
            return False, f"{what}, message {err.strip()[:80]!r}"
        asserted = re.search(r"Assertion|panicked at", err) is not None
        if failure["kind"] == "signal":
            return what == failure["signal"], what
        if failure["kind"] == "abort":
            return what == "SIGABRT" and not asserted, what
        if failure["kind"] == "assertion":
            return what == "SIGABRT" and asserted and self.is_at_mark(err), f"{what}, {err.strip()[:80]!r}"
        return False, what

    def is_at_mark(self, message):
        """Whether an assertion's message names the line of the failing statement."""
        source, line = self.marks[self.facts["failure"]["at"]]
        return re.search(rf"{re.escape(source)}:{line}\b", message) is not None

    def frames(self, level, core, every_thread):
        """The innermost frame in the program's own code, of the failing thread or of each."""
        command = "thread apply all bt" if every_thread else "bt"
        out = subprocess.run(
            ["gdb", "-batch", "-nx", "-ex", "set width 0", "-ex", command, self.binary(level), core],
            capture_output=True, text=True, errors="replace").stdout
        found = []
        for stack in re.split(r"^Thread \d+.*$", out, flags=re.M):
            own = [(pathlib.Path(f).name, int(line)) for f, line in FRAME.findall(stack)
                   if pathlib.Path(f).name in self.facts["sources"]]
            found += own[:1]
        return found

    def reaching_memory(self, level):
        """The (source, line) of every instruction that accesses memory or calls, inlined frames included."""
        out = subprocess.run(
            ["objdump", "-d", "-l", "--inlines", "--no-show-raw-insn", self.binary(level)],
            capture_output=True, text=True, errors="replace", check=True).stdout
        found, outer, place = set(), [], None
        for line in out.splitlines():
            if instruction := INSTRUCTION.match(line):
                if "(" in instruction[2] and instruction[1] not in NOT_ACCESSES or instruction[1].startswith("call"):
                    found.update(p for p in [place, *outer] if p)
                outer = []
            elif location := LOCATION.match(line):
                at = (pathlib.Path(location[2]).name, int(location[3]))
                if location[1]:
                    outer.append(at)
                else:
                    place = at
            elif line.endswith("():"):
                place = None
        return found


def folds_to(statements, pattern):
    """Whether the accesses, an RW standing for a read and a write, contain the pattern in order."""
    accesses = iter("".join(s["access"] for s in statements))
    return all(letter in accesses for letter in pattern)


def check(programs, _):
    bad = 0
    for program in programs:
        for problem in program.check():
            print(f"{program.name}: {problem}")
            bad += 1
    print(f"{len(programs)} programs, {bad} problems")
    return bad


def code(programs, _):
    bad = 0
    for program in programs:
        root = program.facts["root"]
        marks = {s["at"] for s in root["statements"] if "access" in s} | set(root["failing_thread_access"])
        for level in LEVELS:
            found = program.reaching_memory(level)
            for mark in sorted(m for m in marks if program.marks[m] not in found):
                print(f"{program.name}: {level} has no access on the line of {mark}")
                bad += 1
    print(f"{len(programs)} programs, {bad} accesses missing")
    return bad


def dump_cores(wanted):
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most if wanted else 0, most))


def many_runs(program, level, count):
    # A run that hangs costs its timeout and no processor, so others go on beside it.
    beside = 8 if program.facts["failure"]["kind"] == "hang" else 1

    def one(folder):
        start = time.monotonic()
        expected, what = program.run(level, folder)
        return expected, what, time.monotonic() - start

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(beside) as pool:
        yield from pool.map(one, [folder] * count)


def rates(programs, options):
    bad = 0
    dump_cores(False)
    print(f"{'program':<24}" + "".join(f"{level + ' %':>8}{'slowest':>10}" for level in LEVELS))
    for program in programs:
        row, notes = "", []
        for level in LEVELS:
            failures, slowest, others = 0, 0.0, {}
            for expected, what, elapsed in many_runs(program, level, options.runs):
                failures += expected
                if what == "success":
                    slowest = max(slowest, elapsed)
                elif not expected:
                    others[what] = others.get(what, 0) + 1
            rate = 100 * failures / options.runs
            row += f"{rate:>8.1f}{slowest * 1000:>7.0f} ms"
            if not LOWEST_RATE <= rate <= HIGHEST_RATE:
                notes.append(f"{level}: rate is not within {LOWEST_RATE:.0f}% to {HIGHEST_RATE:.0f}%")
            notes += [f"{level}: {count} × {what}, not as the facts say" for what, count in others.items()]
        print(f"{program.name:<24}{row}", flush=True)
        for note in notes:
            print(f"    {note}")
        bad += len(notes)
    return bad


def cores(programs, options):
    bad = 0
    dump_cores(True)
    for program in programs:
        failure = program.facts["failure"]
        hang = failure["kind"] == "hang"
        expected = {program.marks[m] for m in (failure["blocked"] if hang else [failure["at"]])}
        for level in LEVELS:
            seen, wrong = 0, []
            for _ in range(options.runs):
                with tempfile.TemporaryDirectory() as folder:
                    failed, what = program.run(level, folder)
                    if what == "success":
                        continue
                    core = next(pathlib.Path(folder).glob("core*"), None)
                    if core is None:
                        wrong.append(f"{what} left no core (kernel.core_pattern must be core)")
                        break
                    at = program.frames(level, core, hang)
                    if not failed or not expected <= set(at):
                        wrong.append(f"{what} at {at}, not at {sorted(expected)}")
                    seen += 1
                if seen == options.failures:
                    break
            if seen == 0:
                wrong.append(f"no failure in {options.runs} runs")
            print(f"{program.name:<24}{level}  {seen} failures, {len(wrong)} elsewhere", flush=True)
            for line in wrong:
                print(f"    {line}")
            bad += len(wrong)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (check, code, rates, cores):
        sub = commands.add_parser(command.__name__)
        sub.set_defaults(run=command)
        sub.add_argument("names", nargs="*", help="programs (default: all)")
        if command in (rates, cores):
            sub.add_argument("--runs", type=int, default=100)
        if command is cores:
            sub.add_argument("--failures", type=int, default=3)
    options = parser.parse_args()
    folders = sorted(f.parent for f in ZOO.glob("*/facts.toml"))
    programs = [Program(f) for f in folders if not options.names or f.name in options.names]
    if not programs:
        parser.error("no such program")
    if options.command != "check" and check(programs, options):
        return 1
    return 1 if options.run(programs, options) else 0


if __name__ == "__main__":
    sys.exit(main())
