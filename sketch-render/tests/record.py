#!/usr/bin/env python3
"""Makes the recorded sketches anew: `record.py FAILSKETCH [NAME…]`, then `BLESS=1 cargo test -p sketch-render`.

Builds the programs, runs each until its sketch has what it is there to show, and writes the sketch to golden/sketches. A sketch is
different each time (addresses, how many runs it took): read the difference before committing it."""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parents[1] / "tests/programs/sketches"
ATTEMPTS = 30


def functions(sketch):
    return [step["statement"]["function"] for step in sketch["steps"]]


def is_long(sketch):
    return max(map(len, functions(sketch))) >= 400 and sketch["predictors"]


C = ["gcc", "-g", "-O1", "-pthread"]
# What is recorded: source, how it is built, options of `run`, what the sketch has to have.
RECORDED = {
    "six-threads": ("ring.c", C, ["--timeout", "2"], lambda sketch: len(sketch["threads"]) == 6),
    "partial-order": (
        "tie.c",
        C,
        [],
        lambda sketch: any("unordered_after" in step for step in sketch["steps"]),
    ),
    "many-steps": (
        "decoder.py",
        ["gcc", "-g", "-O0", "-pthread"],
        ["--sigma", "600"],
        lambda sketch: len(sketch["steps"]) >= 500 and sketch["predictors"],
    ),
    "template-names": ("templates.cc", ["g++", "-g", "-O1", "-fno-inline", "-pthread"], [], is_long),
    "generic-names": (
        "generics.rs",
        ["rustc", "-g", "-C", "opt-level=1", "-C", "symbol-mangling-version=v0"],
        [],
        is_long,
    ),
}


def build(folder, source, compiler):
    """The program under its name, in the folder of its source."""
    path = folder / source
    path.write_text((PROGRAMS / source).read_text())
    if path.suffix == ".py":
        made = subprocess.run([sys.executable, path], check=True, capture_output=True, text=True)
        path = path.with_suffix(".c")
        path.write_text(made.stdout)
    subprocess.run([*compiler, path.name, "-o", path.stem], cwd=folder, check=True)
    return path.stem


def record(failsketch, name):
    source, compiler, options, has = RECORDED[name]
    with tempfile.TemporaryDirectory() as folder:
        program = build(pathlib.Path(folder), source, compiler)
        for _ in range(ATTEMPTS):
            command = [failsketch, "run", "--json", *options, "--", f"./{program}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{name}: {done.stderr}")
            if has(json.loads(done.stdout)):
                break
        else:
            sys.exit(f"{name}: {ATTEMPTS} sketches, and none has what it is there to show")
        text = done.stdout.replace(folder, f"/src/{program}")
        (HERE / f"golden/sketches/{name}.json").write_text(text)
        print(f"{name}: {len(json.loads(text)['steps'])} steps")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    failsketch = pathlib.Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or RECORDED:
        record(failsketch, name)


main()
