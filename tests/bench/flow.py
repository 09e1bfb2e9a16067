"""What software PT costs."""

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
MOST_IDLE = 1.03
MOST_HIT = 1.3


def measure(folder, binary, turns):
    program = folder / "flow"
    subprocess.run(["gcc", "-O1", "-g", "-rdynamic", "-o", program, HERE / "flow.c"], check=True)
    done = subprocess.run([binary, program, str(turns)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def report(row, verdict):
    print("\nrecording control flow with probes")
    idle = row["idle_ns"] / row["plain_ns"]
    hit = row["hit_ns"] / row["bare_hit_ns"]
    print(f"  a hit: {row['hit_ns']} ns, of a probe that nobody listens to {row['bare_hit_ns']} ns ({row['hits']} hits)")
    verdict("a plan whose ranges are not executed, times as long (processor time)", idle, idle < MOST_IDLE, f"under {MOST_IDLE}: noise")
    verdict("a recorded hit, times a bare one", hit, hit <= MOST_HIT, f"at most {MOST_HIT}")
