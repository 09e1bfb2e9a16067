"""What an agent costs a real server program: redis under its own benchmark, untouched and attached in observe mode with a plan
for four statements. In turns, on one process: contestants meet the same machine.

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
# Seconds; a production agent has 60. Each turn is a whole one, with what is turned off at its beginning.
WINDOW = 20
ROUNDS = 3
SECONDS = 10
KINDS = ["get", "set"]
# The agent's ceiling, and what the ceiling itself may be missed by.
LEAST_RATIO = 0.985


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

    def rates(self):
        """Requests a second, by kind."""
        return {kind: self.rate(kind, self.requests) for kind in KINDS}

    def rate(self, kind, requests):
        done = subprocess.run(["redis-benchmark", "-p", str(self.port), "-t", kind, "-n", str(requests), "-c", "20", "-q", "--csv"],
                              check=True, stdout=subprocess.PIPE, text=True)
        return float(done.stdout.splitlines()[-1].split(",")[1].strip('"'))

    def fail(self):
        """Redis fails in the middle of its work, and the server hears of it."""
        redis, agent = self.start_redis(), self.start_agent()
        load = self.started.start(["redis-benchmark", "-p", self.port, "-t", "get,set", "-n", 100_000_000, "-c", 20, "-q"],
                                  self.folder / "load.log")
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
        self.start_redis()
        self.requests = int(SECONDS * self.rate("get", 50_000))
        rounds = []
        for _ in range(ROUNDS):
            before, plans = self.rates(), self.plans()
            agent = self.start_agent()
            wait_for("no plan", lambda: self.plans() > plans)
            time.sleep(0.5)
            watched = self.rates()
            end(agent)
            after = self.rates()
            alone = {kind: (before[kind] + after[kind]) / 2 for kind in before}
            rounds.append({"alone": alone, "watched": watched})
        sketch = self.sketch(bug)
        ratios = {kind: statistics.median(it["watched"][kind] / it["alone"][kind] for it in rounds) for kind in KINDS}
        spread = {kind: [round(it["watched"][kind] / it["alone"][kind], 3) for it in rounds] for kind in KINDS}
        return {"program": Path(self.redis).name, "failed_in": sketch["failure"]["statement"]["function"],
                "sigma": sketch["sigma"], "windows": sketch["runs"]["successful"], "ratios": ratios, "spread": spread,
                "rounds": rounds, "gaps": sketch["gaps"], "notes": sketch["notes"]}


def report(row, verdict):
    if row is None:
        print("\nSKIPPED a real server under load: redis-server and redis-benchmark are not installed")
        return
    print(f"\nredis under redis-benchmark, attached in observe mode at sigma = {row['sigma']} after it failed in "
          f"{row['failed_in']}, {row['windows']} windows: requests a second, of those untouched")
    for kind, ratio in row["ratios"].items():
        rate = statistics.median(it["alone"][kind] for it in row["rounds"])
        print(f"  {kind}: {rate:.0f} untouched; ratios {row['spread'][kind]}")
        verdict(f"{kind}, median", ratio, ratio >= LEAST_RATIO, f"at least {LEAST_RATIO}: a ceiling of 1 %")
    for said in row["gaps"] + [note for note in row["notes"] if "cut short" in note]:
        print(f"  the sketch says: {said}")
