#!/usr/bin/env python3
"""Gist's own scale: 1,136 hosts send 11,360 recorded runs, while the server, and the database with it, is killed with SIGKILL five
times. What was acknowledged is there, and nothing is counted twice.
"""

import argparse
import contextlib
import re
import subprocess
import tempfile
import time
from pathlib import Path

import programs
from postgres import Postgres, free_port

ROOT = programs.ROOT
PROGRAM = "mysql-proc-info"


class Server:
    def __init__(self, failsketch, store, objects):
        self.address = f"127.0.0.1:{free_port()}"
        self.words = [failsketch, "serve", "--listen", self.address, "--store", store, "--objects", str(objects)]
        self.start()

    def start(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            self.process = subprocess.Popen(self.words, stderr=subprocess.PIPE, text=True)
            if any("serving on" in line for line in iter(self.process.stderr.readline, "")):
                return
            self.process.wait()
            time.sleep(0.2)
        raise SystemExit("the server does not start")

    def kill(self):
        self.process.kill()
        self.process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--failsketch", default=str(ROOT / "target/release/failsketch"))
    arguments.add_argument("--hosts", type=int, default=1136)
    arguments.add_argument("--runs", type=int, default=11360)
    arguments.add_argument("--kills", type=int, default=5)
    arguments.add_argument("--sqlite", action="store_true", help="instead of PostgreSQL")
    options = arguments.parse_args()
    subject = programs.built([programs.ZOO], ["O0"], [PROGRAM], ROOT / "target/eval")[0]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = Path(folder)
        kept = folder / "kept"
        subprocess.run([options.failsketch, "run", "--json", "--keep", kept, "--", *subject.command], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        database = None if options.sqlite else stack.enter_context(Postgres())
        store = f"sqlite:{folder}/bugs.db" if options.sqlite else database.database()
        server = Server(options.failsketch, store, folder / "objects")
        url, started = f"http://{server.address}", time.monotonic()
        fleet = subprocess.Popen([options.failsketch, "fleet", "--server", url, "--replay", kept, "--agents", str(options.hosts),
                                  "--runs", str(options.runs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        killed = 0
        while killed < options.kills:
            if not reaches(options.failsketch, url, options.runs * (killed + 1) // (options.kills + 1), fleet):
                break
            server.kill()
            if database:
                database.kill()
                time.sleep(0.5)
                database.start()
            server.start()
            killed += 1
        said, problems = fleet.communicate()
        seconds = time.monotonic() - started
        print(f"{said.strip()}\n{'PostgreSQL' if database else 'SQLite'}, killed {killed} times, {seconds:.1f} s in all")
        if fleet.returncode:
            raise SystemExit(f"the fleet failed: {problems[-2000:]}")
        counts = re.search(r"(\d+) stored, (\d+) had been stored before, (\d+) refused; the server has (\d+)", said)
        stored, again, refused, there = map(int, counts.groups())
        right = there == options.runs and stored + again == options.runs and refused == 0 and killed == options.kills
        taken = wait_for_sketch(options.failsketch, url, options.runs)
        print(f"the sketch is made of {taken} runs")
        server.process.terminate()
        server.process.wait()
        raise SystemExit(0 if right and taken == options.runs else "MISSED: runs were lost, counted twice or refused")


def reaches(failsketch, url, runs, fleet):
    """Waits until the server has so many runs; whether it has them before the fleet has sent all."""
    while fleet.poll() is None:
        listed = subprocess.run([failsketch, "bugs", "--server", url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        there = [line.split()[4] for line in listed.stdout.splitlines() if line[:1].strip() and len(line.split()) > 4]
        if any(count.isdigit() and int(count) >= runs for count in there):
            return True
        time.sleep(0.05)
    return False


def wait_for_sketch(failsketch, url, runs):
    """How many tracked runs the sketch says that it is made of, when it is made of all."""
    taken = 0
    for _ in range(600):
        bug = subprocess.run([failsketch, "bugs", "--server", url], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[0]
        shown = subprocess.run([failsketch, "show", "--server", url, bug], stdout=subprocess.PIPE, text=True).stdout
        found = re.search(r"of (\d+) tracked runs", shown)
        taken = int(found[1]) if found else 0
        if taken == runs:
            break
        time.sleep(0.5)
    return taken


if __name__ == "__main__":
    main()
