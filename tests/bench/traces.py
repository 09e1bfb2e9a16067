"""Traces of real processors, decoded by libipt's block decoder and by ours: from nothing, and the same trace again.

The traces are beside the project, too large to be a part of it. Contestants take turns; the best of each counts.
"""

import json
import os
import subprocess
from pathlib import Path

# Our speed as a multiple of libipt's, at least.
MIN_FIRST, MIN_FIRST_OF_OTHERS, MIN_AGAIN = {"mruby": 4, "foo": 8}, 4, 10


def measure(root, program, turns):
    folder = Path(os.environ.get("FAILSKETCH_PT_TRACES", root.parent / "shared/pt-traces"))
    files = sorted(folder.glob("*.pt"))
    if not files:
        print(f"\nSKIPPED decoding of traces: none in {folder}")
    return [json.loads(subprocess.run([program, str(turns), file], check=True, stdout=subprocess.PIPE).stdout)
            for file in files]


def report(rows, verdict):
    if not rows:
        return
    print("\nDecoding of traces by libipt's block decoder and ours, best of the turns: from nothing, and the same again")
    print(f"{'trace':>10} {'libipt ms':>10} {'again':>8} {'ours ms':>8} {'again':>8} {'first x':>8} {'again x':>8} "
          f"{'2 threads x':>12}")
    for row in rows:
        print(f"{Path(row['file']).stem:>10} {row['libipt_ms']:10.2f} {row['libipt_again_ms']:8.2f} {row['ours_ms']:8.2f} "
              f"{row['ours_again_ms']:8.2f} {row['first']:8.1f} {row['again']:8.1f} {row['two_threads']:12.2f}")
    for row in rows:
        name = Path(row["file"]).stem
        wanted = MIN_FIRST.get(name, MIN_FIRST_OF_OTHERS)
        verdict(f"{name}, times libipt's speed", row["first"], row["first"] >= wanted, f"at least {wanted}")
        verdict(f"{name} again, times libipt's speed", row["again"], row["again"] >= MIN_AGAIN, f"at least {MIN_AGAIN}")
