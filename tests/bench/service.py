"""What the service takes in, what another run costs a bug that has many behind it, and what agents cost programs."""

import json
import shutil
import subprocess
from pathlib import Path

import attached
import ceiling

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "tests/zoo"
PROGRAM = "mysql-proc-info"
LEAST_RATIO = 0.7
MOST_GROWTH = 1.25


def measure(folder, failsketch, ingest, updates):
    program = ZOO / "build/O0" / PROGRAM
    subprocess.run(["make", "-s", "-C", ZOO, program], check=True)
    kept = folder / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    subprocess.run([failsketch, "run", "--json", "--keep", kept, "--", program], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    row = {}
    for name, binary in (("ingest", ingest), ("updates", updates)):
        done = subprocess.run([binary, program, kept], check=True, stdout=subprocess.PIPE, text=True)
        row[name] = json.loads(done.stdout)
    row["ceiling"] = ceiling.measure(folder, failsketch)
    row["attached"] = attached.measure(folder, failsketch)
    return row


def report(row, verdict):
    ingest, updates = row["ingest"], row["updates"]
    print(f"\nrun reports of {ingest['bytes']} bytes, accepted a second: {ingest['server']:.0f}, "
          f"by a server that only commits them {ingest['bare']:.0f}")
    verdict("accepted, of what a bare server accepts", ingest["ratio"], ingest["ratio"] >= LEAST_RATIO,
            f"at least {LEAST_RATIO}")
    times = updates["microseconds"]
    stored = ", ".join(f"{micros:.0f} us after {count}" for micros, count in zip(times, updates["stored"]))
    print(f"\nanother run taken in and drawn: {stored}")
    growth = max(times) / times[0]
    verdict("growth with the number of runs", growth, growth <= MOST_GROWTH, f"at most {MOST_GROWTH}: noise")
    ceiling.report(row["ceiling"], verdict)
    attached.report(row["attached"], verdict)
