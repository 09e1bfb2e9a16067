"""What an agent costs a real server program: redis under its own benchmark, untouched and attached in observe mode with a plan
for four statements.

The load never pauses, and the agent comes and goes: many short spells, each held against the spells without an agent before and
after it, so that contestants meet the same machine. From one spell to the next a machine that does other things varies by more
than what is looked for; the median of many spells does not, and an interval says how well it is known. There are as many spells as that takes.
Beside requests a second there is the time that redis was on a processor for a request, which other programs hardly change.

The plan comes about as it would in production: redis fails under load (a signal), the server finds out what to watch, and
when redis is back the agent watches it there.
"""

import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path

SIGMA = 4
# Seconds; a production agent has 60. Each spell is a whole one, with what is turned off at its beginning.
WINDOW = 3
KINDS = ["get", "set"]
FEWEST_SPELLS, MOST_SPELLS = 16, 60
# The agent's ceiling, and what the ceiling itself may be missed by.
LEAST_RATIO = 0.985
# Half of the interval: one that is wider could not tell.
WIDEST = 0.015
CONFIDENCE = 0.95
MEASURES = {"requests": "requests a second", "economy": "requests for a second of redis on a processor"}


def measure(folder, failsketch):
    redis = shutil.which("redis-server")
    if redis is None or shutil.which("redis-benchmark") is None:
        return None
    folder = Path(folder) / "attached"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Started() as started:
        bench = Bench(folder, failsketch, redis, started)
        return bench.run()


class Started:
    """Processes that end with us."""

    def __enter__(self):
        self.processes = []
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            end(process)

    def start(self, words, log):
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                   stdout=log.open("ab"), stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, condition, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"bench: {what} in {seconds} s")


class Bench:
    def __init__(self, folder, failsketch, redis, started):
        self.folder, self.failsketch, self.redis, self.started = folder, failsketch, redis, started
        self.port, server = free_port(), free_port()
        self.url = f"http://127.0.0.1:{server}"
        started.start([failsketch, "serve", "--listen", f"127.0.0.1:{server}", "--store", f"sqlite:{folder}/bugs.db",
                       "--objects", folder / "objects"], folder / "server.log")
        wait_for("no server", lambda: "serving on" in self.text("server.log"))

    def text(self, name):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def say(self, *words):
        done = subprocess.run([str(self.failsketch), *map(str, words), "--server", self.url], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.stdout

    def start_redis(self):
        process = self.started.start([self.redis, "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                                      "--crash-log-enabled", "no", "--dir", self.folder], self.folder / "redis.log")
        wait_for("no redis", lambda: self.answers())
        return process

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def start_agent(self):
        """An agent, when it watches redis; with what it said before."""
        before = len(self.text("agent.log"))
        agent = self.started.start([self.failsketch, "agent", "--server", self.url, "--host-id", self.folder / "host-id",
                                    "--spool", self.folder / "spool", "--window", WINDOW, "--executable",
                                    os.path.realpath(self.redis)],
                                   self.folder / "agent.log")
        wait_for("nobody watches redis", lambda: "watching" in self.text("agent.log")[before:])
        return agent

    def plans(self):
        """Plans that the server has given out."""
        return int(self.figure("failsketch_plans"))

    def figure(self, name):
        with socket.create_connection(self.url.removeprefix("http://").split(":"), timeout=5) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        found = re.search(rf"^{name}\w* (\d+)", text, re.M)
        return found[1] if found else 0

    def load(self, kinds):
        """Requests of these kinds until it is ended."""
        return self.started.start(["redis-benchmark", "-p", self.port, "-t", kinds, "-n", 1_000_000_000, "-c", 20, "-q"],
                                  self.folder / "load.log")

    def counts(self, redis):
        """Requests so far, and for how long redis was on a processor."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"INFO stats\r\n")
            text = connection.recv(65536).decode()
        threads = Path(f"/proc/{redis.pid}/task").iterdir()
        busy = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
        return int(re.search(r"total_commands_processed:(\d+)", text)[1]), busy

    def spell(self, redis):
        before, began = self.counts(redis), time.monotonic()
        time.sleep(WINDOW)
        after, seconds = self.counts(redis), time.monotonic() - began
        requests = after[0] - before[0]
        return {"requests": requests / seconds, "economy": requests / (after[1] - before[1])}

    def spells(self, redis, kind):
        """Spells with and without an agent, in turns."""
        load = self.load(kind)
        time.sleep(1)
        alone, watched = [self.spell(redis)], []
        while len(watched) < MOST_SPELLS:
            plans = self.plans()
            agent = self.start_agent()
            wait_for("no plan", lambda: self.plans() > plans)
            # Beginning to watch takes a moment, which a production agent has once and not every few seconds.
            time.sleep(0.5)
            watched.append(self.spell(redis))
            end(agent)
            alone.append(self.spell(redis))
            found = {measure: ratio(alone, watched, measure) for measure in MEASURES}
            if len(watched) >= FEWEST_SPELLS and width(found["requests"]) <= WIDEST:
                break
        end(load)
        return {"alone": alone, "watched": watched, **found}

    def fail(self):
        """Redis fails in the middle of its work, and the server hears of it."""
        redis, agent = self.start_redis(), self.start_agent()
        load = self.load("get,set")
        time.sleep(1.5)
        redis.send_signal(signal.SIGSEGV)
        redis.wait()
        end(load)
        bug = wait_for("no bug", lambda: next(iter(re.findall(r"^[0-9a-f]{16}", self.say("bugs"), re.M)), None))
        end(agent)
        return bug

    def sketch(self, bug):
        return json.loads(self.say("show", "--format", "json", bug))

    def run(self):
        bug = self.fail()
        self.say("steer", bug, "--widen")
        wait_for("another sigma", lambda: self.sketch(bug)["sigma"] == SIGMA)
        redis = self.start_redis()
        kinds = {kind: self.spells(redis, kind) for kind in KINDS}
        sketch = self.sketch(bug)
        return {"program": Path(self.redis).name, "failed_in": sketch["failure"]["statement"]["function"],
                "sigma": sketch["sigma"], "windows": sketch["runs"]["successful"], "kinds": kinds,
                "gaps": sketch["gaps"], "notes": sketch["notes"]}


def ratio(alone, watched, measure):
    """The median of what spells with an agent are of those around them, with an interval."""
    around = zip(alone, alone[1:])
    ratios = sorted(spell[measure] * 2 / (before[measure] + after[measure]) for spell, (before, after) in zip(watched, around))
    low, high = ranks(len(ratios))
    return {"median": statistics.median(ratios), "low": ratios[low], "high": ratios[high]}


def width(interval):
    return (interval["high"] - interval["low"]) / 2


def ranks(count):
    """Which of so many sorted samples the median lies between, whatever their distribution: as many are below it as coins
    show heads."""
    below, chance = 0, 0.5 ** count
    cumulated = chance
    while cumulated <= (1 - CONFIDENCE) / 2:
        below += 1
        chance *= (count - below + 1) / below
        cumulated += chance
    first = max(below - 1, 0)
    return first, count - 1 - first


def report(row, verdict):
    if row is None:
        print("\nSKIPPED a real server under load: redis-server and redis-benchmark are not installed")
        return
    print(f"\nredis under redis-benchmark, attached in observe mode at sigma = {row['sigma']} after it failed in "
          f"{row['failed_in']}, {row['windows']} windows: of what it does untouched, the median and its {CONFIDENCE:.0%} interval")
    for kind, found in row["kinds"].items():
        for measure, words in MEASURES.items():
            usual = statistics.median(spell[measure] for spell in found["alone"])
            print(f"  {kind}, {words}: {usual:.0f} untouched; {found[measure]['median']:.3f} of it, {found[measure]['low']:.3f} to "
                  f"{found[measure]['high']:.3f}, in {len(found['watched'])} spells")
        interval = found["requests"]
        verdict(f"{kind}, upper end of the interval", interval["high"], interval["high"] >= LEAST_RATIO,
                f"at least {LEAST_RATIO}: a ceiling of 1 %")
        verdict(f"{kind}, half of the interval", width(interval), width(interval) <= WIDEST, f"at most {WIDEST}, or nobody can tell")
    for said in row["gaps"] + [note for note in row["notes"] if "cut short" in note]:
        print(f"  the sketch says: {said}")
