#!/usr/bin/env python3
"""Writes the inputs that fuzzing starts from into fuzz/corpus: programs and cores made by the compilers and the
kernel of this machine, and the stack traces of the tests.

An input of elf_dwarf and core is two files, one after the other, and the length of the second in four bytes.
"""

import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

FUZZ = Path(__file__).resolve().parent
ROOT = FUZZ.parent
PROGRAMS = ROOT / "program/tests/programs"
PT_LOAD, PT_NOTE = 1, 4
STACK = 4096

# name, what compiles it, the source
BUILDS = [
    ("switches-O2", "gcc -g -O2 -w", PROGRAMS / "switches.c"),
    ("switches-dwarf4", "gcc -g -gdwarf-4 -O1 -no-pie -w", PROGRAMS / "switches.c"),
    ("switches-clang", "clang -g -O2 -w", PROGRAMS / "switches.c"),
    ("switches-packed", "gcc -g -O2 -gz=zlib -w", PROGRAMS / "switches.c"),
    ("switches-types", "gcc -g -fdebug-types-section -w", PROGRAMS / "switches.c"),
    ("threads", "gcc -g -O2 -pthread -w", FUZZ / "seeds/threads.c"),
    ("threads-O0", "gcc -g -O0 -pthread -w", FUZZ / "seeds/threads.c"),
    ("threads-clang", "clang -g -O1 -pthread -w", FUZZ / "seeds/threads.c"),
    ("throws", "g++ -g -O1 -w", PROGRAMS / "throws.cpp"),
]


def write(target, name, first, second=b""):
    folder = FUZZ / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(first + second + struct.pack("<I", len(second)))


def run(folder, *words):
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def programs(folder):
    for name, compiler, source in BUILDS:
        words = compiler.split()
        if shutil.which(words[0]) is None:
            print(f"SKIPPED seed {name}: no {words[0]} on this machine", file=sys.stderr)
            continue
        run(folder, *words, "-o", name, str(source))
        whole = (folder / name).read_bytes()
        write("elf_dwarf", name, whole)
    run(folder, "objcopy", "--only-keep-debug", "threads", "threads.debug")
    run(folder, "objcopy", "--strip-debug", "--add-gnu-debuglink=threads.debug", "threads", "threads.bare")
    write("elf_dwarf", "separate", (folder / "threads.bare").read_bytes(), (folder / "threads.debug").read_bytes())
    run(folder, "strip", "-o", "threads.none", "threads")
    write("elf_dwarf", "stripped", (folder / "threads.none").read_bytes())
    source = str(FUZZ / "seeds/threads.c")
    run(folder, "gcc", "-g", "-O1", "-gsplit-dwarf", "-pthread", "-w", "-c", source, "-o", "split.o")
    run(folder, "gcc", "-pthread", "split.o", "-o", "split")
    write("elf_dwarf", "split", (folder / "split").read_bytes(), (folder / "split.dwo").read_bytes())


def trimmed(core):
    """A core with the headers, the notes and, of each piece of memory, the last bytes: where a young stack is."""
    phoff, = struct.unpack_from("<Q", core, 32)
    count, = struct.unpack_from("<H", core, 56)
    headers, content = [], b""
    at = 64 + 56 * count
    for index in range(count):
        header = list(struct.unpack_from("<IIQQQQQQ", core, phoff + 56 * index))
        kind, offset, size = header[0], header[2], header[5]
        keep = size if kind == PT_NOTE else min(size, STACK)
        header[2] = at + len(content)
        if kind == PT_LOAD and size > keep:
            header[3] += size - keep
            header[6] -= size - keep
        header[5] = keep
        content += core[offset + size - keep : offset + size]
        headers.append(struct.pack("<IIQQQQQQ", *header))
    start = bytearray(core[:64])
    struct.pack_into("<Q", start, 32, 64)
    return bytes(start) + b"".join(headers) + content


def cores(folder):
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if pattern.startswith(("|", "/")):
        print(f"SKIPPED the seeds of core: cores go to {pattern.strip()}", file=sys.stderr)
        return
    allow = lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    for name, options in [("segv", "-O1"), ("segv-frames", "-O0 -no-pie"), ("segv-static", "-O2 -static -nostdlib -DBARE")]:
        run(folder, "gcc", "-g", "-w", *options.split(), "-o", name, str(FUZZ / "seeds/crash.c"))
        runs = folder / f"{name}.run"
        runs.mkdir()
        subprocess.run([folder / name], cwd=runs, env={}, preexec_fn=allow)
        for core in runs.iterdir():
            small = trimmed(core.read_bytes())
            write("core", name, small, (folder / name).read_bytes())
            write("core", f"{name}-alone", small)


def texts():
    folder = FUZZ / "corpus/trace_text"
    folder.mkdir(parents=True, exist_ok=True)
    for text in (ROOT / "failure/tests/fixtures/text").glob("*.txt"):
        shutil.copy(text, folder / text.name)


def traces():
    """Short traces of code with every kind of branch: real packets, to be changed."""
    code = bytes.fromhex("90 7402 ebfb e803000000 ffe0 90 e2fd 0f8405000000 c3 ffd0 0f05 f30faee0 0f22d8 48cf cc") * 40
    psb = bytes([2, 0x82]) * 8
    start = bytes.fromhex("9901 6d 000040000000 0223").replace(b"\x6d", b"\x7d")
    bodies = {
        "outcomes": "fe" * 30 + "a4 06 04 02a3ffffffffff07",
        "targets": "2d0500 4d0c004000 6d100040000000 06 2d1400 cd2000400000000000",
        "off-and-on": "01 710000400000 00 06 210500 310700 0000000000 06",
        "events": "3d0500 2d0900 02f3 7d0000400000 00 9921 3d0300 9922 3d0300 2d0000 021205060708 02e2 3d0800 02131020",
        "timing": "1901020304050607 02730100000200 5911 0b 0f02 02032800 06 02c38800000000000000 00 0262",
        "again": (psb + start).hex() + "fe fe d9 fe" + (psb + start).hex() + "06 04",
    }
    for name, body in bodies.items():
        write("pt", name, psb + start + bytes.fromhex(body), code)


def main():
    with tempfile.TemporaryDirectory() as folder:
        programs(Path(folder))
        cores(Path(folder))
    texts()
    traces()


if __name__ == "__main__":
    main()
