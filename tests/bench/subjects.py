"""Builds one crashing program at several sizes: the same crash, with more and more of the rest around it.

The rest is a few compilations of filler.cc, copied under new names: to a debugger that reads them they are
units like any other, and a hundred megabytes of them take seconds, not minutes, to make.
"""

import os
import resource
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMPILED = 4
# Each copy brings 0.8 MB of debug information and 0.2 MB of machine code.
COPIES = {"small": 13, "medium": 52, "large": 140}
# Unique symbols cannot be made local.
OPTIONS = ["-g", "-O0", "-std=c++17", "-pthread", "-fno-gnu-unique"]


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


def fresh(product, *sources):
    return product.exists() and all(product.stat().st_mtime >= source.stat().st_mtime for source in sources)


def compile_filler(folder, jobs):
    """The filler's objects, with every symbol but the entry local: copies of them do not meet."""
    source = HERE / "filler.cc"
    objects = [folder / f"filler{part}.o" for part in range(COMPILED)]
    waiting = [part for part in range(COMPILED) if not fresh(objects[part], source)]
    running = []
    for part in waiting:
        if len(running) == jobs:
            finish(running.pop(0))
        words = ["g++", *OPTIONS, f"-DPART={part}", "-c", str(source), "-o", str(objects[part]) + ".whole"]
        running.append((part, subprocess.Popen(words)))
    for started in running:
        finish(started)
    for part in waiting:
        run("ld", "-r", "--force-group-allocation", f"{objects[part]}.whole", "-o", objects[part])
    return objects


def finish(started):
    part, process = started
    if process.wait() != 0:
        raise SystemExit(f"bench: g++ cannot compile filler.cc (part {part}); install g++")


def build(folder, name, objects):
    program = folder / name
    if fresh(program, *objects, HERE / "crash.cc", HERE / "subjects.py"):
        return program
    copies = []
    for number in range(COPIES[name]):
        copy = folder / f"copy{number}.o"
        if not fresh(copy, *objects):
            entry = f"filler{number}"
            words = [f"--redefine-sym=filler={entry}", f"--keep-global-symbol={entry}"]
            run("objcopy", *words, objects[number % COMPILED], copy)
        copies.append(copy)
    calls = folder / f"{name}-calls.c"
    declared = "".join(f"int filler{n}(int);\n" for n in range(len(copies)))
    called = " + ".join(f"filler{n}(seed)" for n in range(len(copies)))
    calls.write_text(f"{declared}int fillers(int seed) {{ return {called}; }}\n")
    run("gcc", "-c", calls, "-o", folder / f"{name}-calls.o")
    # The crash in the middle: neither the first nor the last unit.
    half = len(copies) // 2
    run("g++", *OPTIONS, *copies[:half], HERE / "crash.cc", *copies[half:], folder / f"{name}-calls.o", "-o", program)
    return program


def crash(program):
    """The core of a run, by the kernel, or by gdb where the kernel hands cores to somebody else."""
    core = program.with_suffix(".core")
    if fresh(core, program):
        return core
    place = program.with_suffix(".run")
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if pattern.startswith(("|", "/")):
        run("gdb", "-nx", "-batch", "-ex", "run", "-ex", "generate-core-file core", program, cwd=place,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        allow = lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        subprocess.run([program], cwd=place, stdout=subprocess.DEVNULL, preexec_fn=allow)
    cores = list(place.iterdir())
    if not cores:
        raise SystemExit("bench: no core was written; allow it with `ulimit -c unlimited`")
    os.replace(cores[0], core)
    return core


def section_sizes(program):
    """Bytes of debug information and of machine code."""
    listing = subprocess.run(["size", "-A", program], check=True, capture_output=True, text=True).stdout
    debug = code = 0
    for words in map(str.split, listing.splitlines()):
        if len(words) == 3 and words[0].startswith((".debug", ".zdebug")):
            debug += int(words[1])
        elif len(words) == 3 and words[0] == ".text":
            code += int(words[1])
    return debug, code


def all_subjects(folder, jobs):
    folder.mkdir(parents=True, exist_ok=True)
    objects = compile_filler(folder, jobs)
    return {name: build(folder, name, objects) for name in COPIES}
