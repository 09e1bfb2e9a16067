#!/usr/bin/env python3
"""Two servers on one PostgreSQL, and agents spread over both: one server is killed with SIGKILL in the middle and comes back. The
zoo's programs are judged by the facts, and both servers have to tell the same.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import judge
import programs
from postgres import Postgres
from scale import Server

ROOT = programs.ROOT
# Tracked runs that there are when the server is killed, and seconds that it stays away.
RUNS_BEFORE, AWAY = 3, 2.0


def said(failsketch, server, *words):
    """What somebody hears from a server; nothing if it has no answer."""
    done = subprocess.run([failsketch, *words, "--server", f"http://{server.address}"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else ""


def first_bug(failsketch, server):
    """The bug's id, how it stands, and how many runs were tracked. Of several the one that failed most often."""
    lines = [line.split() for line in said(failsketch, server, "bugs").splitlines() if line[:1].strip()]
    bugs = [(line[0], line[1], int(line[4]), int(line[2])) for line in lines if len(line) > 4 and line[4].isdigit()]
    return max(bugs, key=lambda bug: bug[3], default=(None, "", 0, 0))[:3]


def agents(failsketch, subject, servers, count, folder):
    """Agents, each with one of the servers."""
    for number in range(count):
        server = servers[number % len(servers)]
        own = folder / f"agent-{number}"
        own.mkdir()
        yield subprocess.Popen([failsketch, "agent", "--server", f"http://{server.address}", "--host-id", own / "id", "--spool",
                                own / "spool", "--", *subject.command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def watch(failsketch, servers, limit):
    """Waits until the bug is no longer tracked; kills the first server on the way. Gives the bug and whether it was killed."""
    until, killed = time.monotonic() + limit, False
    while time.monotonic() < until:
        bug, state, runs = first_bug(failsketch, servers[1])
        if runs >= RUNS_BEFORE and not killed:
            servers[0].kill()
            time.sleep(AWAY)
            servers[0].start()
            killed = True
        if state in ("explained", "unclear", "stable") and killed:
            return bug, killed
        time.sleep(0.2)
    return bug, killed


def same_sketch(failsketch, servers, bug):
    """What both servers show, once they have taken in the same runs."""
    for _ in range(100):
        shown = [said(failsketch, server, "show", bug, "--format", "json") for server in servers]
        if shown[0] and shown[0] == shown[1]:
            return json.loads(shown[0])
        time.sleep(0.1)
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--failsketch", default=str(ROOT / "target/release/failsketch"))
    arguments.add_argument("--agents", type=int, default=4)
    arguments.add_argument("--levels", nargs="*", default=programs.LEVELS)
    arguments.add_argument("--only", nargs="*", default=[])
    arguments.add_argument("--time-limit", type=int, default=120)
    options = arguments.parse_args()
    subjects = programs.built([programs.ZOO], options.levels, options.only, ROOT / "target/eval")
    right = 0
    with Postgres() as database:
        for subject in subjects:
            with tempfile.TemporaryDirectory() as folder:
                folder, store = Path(folder), database.database()
                servers = [Server(options.failsketch, store, folder / "objects") for _ in range(2)]
                started = time.monotonic()
                running = list(agents(options.failsketch, subject, servers, options.agents, folder))
                bug, killed = watch(options.failsketch, servers, options.time_limit)
                seconds = time.monotonic() - started
                for agent in running:
                    agent.terminate()
                for agent in running:
                    agent.wait()
                sketch = same_sketch(options.failsketch, servers, bug) if bug else None
                for server in servers:
                    server.process.terminate()
                    server.process.wait()
                rank = judge.rank_of_root(subject, sketch) if sketch else None
                right += rank == 1 and killed
                runs = sketch["runs"] if sketch else {}
                print(f"{subject.name:24} {subject.level}  root {rank or '-':>2}  {runs.get('failing')} failing "
                      f"{runs.get('successful')} successful {seconds:6.1f} s{'' if killed else '  NOT KILLED'}"
                      f"{'' if sketch else '  NOT THE SAME'}" + ("" if rank == 1 or not sketch else f"  {judge.in_words(sketch)}"),
                      flush=True)
    print(f"root cause first in {right} of {len(subjects)}")


if __name__ == "__main__":
    main()
