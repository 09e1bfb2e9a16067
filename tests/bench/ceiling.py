"""Whether the agent keeps to its ceiling: a program that touches the tracked variable a hundred thousand times a second, untouched and
attached in observe mode with a ceiling of 1 %. The plan comes about as in `attached`.

What counts is what the program gets done in a second of its own on a processor, for traps are counted there: other programs hardly
change that.
"""

import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import attached
from attached import FEWEST_SPELLS, MOST_SPELLS, WIDEST, WINDOW, end, ratio, wait_for, width

HERE = Path(__file__).parent
MOST_OVERHEAD = 0.015


def measure(folder, failsketch):
    folder = Path(folder) / "ceiling"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = folder / "ceiling"
    subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", "-o", program, HERE / "ceiling.c"], check=True)
    with attached.Started() as started:
        return Bench(folder, failsketch, program, started).run()


class Bench(attached.Bench):
    """The same with a program of our own."""

    def start_program(self):
        process = self.started.start([self.redis, self.folder / "touches"], self.folder / "program.log")
        wait_for("nothing is touched", lambda: self.counts(process)[0] > 0)
        return process

    def counts(self, process):
        path = self.folder / "touches"
        content = path.read_bytes() if path.exists() else b""
        busy = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
        return (struct.unpack("q", content)[0] if len(content) == 8 else 0), busy

    def fail(self):
        process, agent = self.start_program(), self.start_agent()
        time.sleep(0.5)
        process.send_signal(signal.SIGUSR1)
        process.wait()
        bug = wait_for("no bug", lambda: next(iter(re.findall(r"^[0-9a-f]{16}", self.say("bugs"), re.M)), None))
        end(agent)
        (self.folder / "touches").unlink()
        return bug

    def run(self):
        bug = self.fail()
        process = self.start_program()
        alone, watched = [self.spell(process)], []
        while len(watched) < MOST_SPELLS:
            plans = self.plans()
            agent = self.start_agent()
            wait_for("no plan", lambda: self.plans() > plans)
            # The first traps, and what stops them, are in it.
            watched.append(self.spell(process))
            end(agent)
            alone.append(self.spell(process))
            if len(watched) >= FEWEST_SPELLS and width(ratio(alone, watched, "economy")) <= WIDEST:
                break
        sketch = wait_for("no window in the sketch", lambda: self.with_windows(bug))
        return {"alone": alone, "watched": watched, "economy": ratio(alone, watched, "economy"), "notes": sketch["notes"],
                "windows": sketch["runs"]["successful"]}

    def with_windows(self, bug):
        sketch = self.sketch(bug)
        return sketch if any("tracked runs" in note for note in sketch["notes"]) else None


def report(row, verdict):
    touches = sorted(spell["economy"] for spell in row["alone"])[len(row["alone"]) // 2]
    overhead = 1 - row["economy"]["median"]
    print(f"\na variable that is touched {touches:.0f} times a second, attached with a ceiling of 1 %, {len(row['watched'])} spells of "
          f"{WINDOW} s: it costs {100 * overhead:.2f} %, give or take {100 * width(row['economy']):.2f}")
    verdict("cost of tracking", overhead, overhead <= MOST_OVERHEAD, f"at most {MOST_OVERHEAD}")
    interval = width(row["economy"])
    verdict("half of its interval", interval, interval <= WIDEST, f"at most {WIDEST}, or nobody can tell")
    cut = [note for note in row["notes"] if "cut short" in note]
    verdict("notes that tracking was cut short", len(cut), bool(cut), "at least 1")
    for note in cut:
        print(f"  the sketch says: {note}")
