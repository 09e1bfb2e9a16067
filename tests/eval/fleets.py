#!/usr/bin/env python3
"""Whether a fleet finds what one machine finds: the zoo's programs through a server and agents, judged by the facts.

With fewer registers than a plan takes, no agent sees everything. Each fleet has a server and a database of its own.
"""

import argparse
import contextlib
import json
import subprocess
import tempfile
import time
from pathlib import Path

import judge
import programs
from postgres import Postgres, free_port

ROOT = programs.ROOT


def fleet(failsketch, subject, agents, registers, limit, server):
    """The sketch of a fleet, and how long it took."""
    words = [failsketch, "fleet", "--agents", agents, "--registers", registers, "--time-limit", limit, "--format", "json"]
    words += ["--server", server] if server else []
    started = time.monotonic()
    done = subprocess.run([*map(str, words), "--", *subject.command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        return None, seconds, done.stderr.strip().splitlines()[-1:]
    return json.loads(done.stdout), seconds, None


class Server:
    """One for all fleets, on a database."""

    def __init__(self, failsketch, store, folder):
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        self.process = subprocess.Popen([failsketch, "serve", "--listen", address, "--store", store, "--objects",
                                         str(Path(folder) / "objects")], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "serving on" in line:
                break

    def end(self):
        self.process.terminate()
        self.process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--failsketch", default=str(ROOT / "target/release/failsketch"))
    arguments.add_argument("--agents", type=int, default=4)
    arguments.add_argument("--registers", type=int, default=4)
    arguments.add_argument("--runs", type=int, default=1, help="fleets for each program at each level")
    arguments.add_argument("--levels", nargs="*", default=programs.LEVELS)
    arguments.add_argument("--only", nargs="*", default=[])
    arguments.add_argument("--time-limit", type=int, default=180)
    arguments.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    options = arguments.parse_args()
    subjects = programs.built([programs.ZOO], options.levels, options.only, ROOT / "target/eval")
    right = tried = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        database = stack.enter_context(Postgres()) if options.postgres else None
        for subject in subjects:
            for _ in range(options.runs):
                server = None
                if database:
                    server = Server(options.failsketch, database.database(), folder)
                sketch, seconds, problem = fleet(options.failsketch, subject, options.agents, options.registers,
                                                 options.time_limit, server and server.url)
                if server:
                    server.end()
                tried += 1
                if sketch is None:
                    print(f"{subject.name:24} {subject.level}  {problem}", flush=True)
                    continue
                rank, runs = judge.rank_of_root(subject, sketch), sketch["runs"]
                right += rank == 1
                best = sketch["predictors"][0] if sketch["predictors"] else {}
                places = [(Path(s.get("file") or "?").name, s.get("line")) for s in best.get("statements", [])]
                print(f"{subject.name:24} {subject.level}  root {rank or '-':>2}  at "
                      f"{'ok' if judge.failing_is_right(subject, sketch) else 'WRONG':5} {runs['failing']:3} failing "
                      f"{runs['successful']:3} successful {seconds:6.1f} s"
                      + ("" if rank == 1 else f"  {best.get('pattern') or best.get('predicate')} {places} "
                         f"{best.get('failing_with')}/{best.get('failing')} {best.get('successful_with')}/{best.get('successful')}"),
                      flush=True)
    print(f"root cause first in {right} of {tried}")


if __name__ == "__main__":
    main()
