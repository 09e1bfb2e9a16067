#!/usr/bin/env python3
"""Puts axe-core (MPL-2.0), which judges how accessible a page is, into a folder: `axe.py FOLDER`.

It is taken from a Python package that has it inside, of one version with one hash: it is not ours, so it is not in the
repository, and nothing but a test needs it."""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "axe-playwright-python==0.1.8"
HASH = "sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8"

target = pathlib.Path(sys.argv[1]) / "axe.min.js"
if not target.exists():
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wanted = pathlib.Path(folder) / "wanted.txt"
        wanted.write_text(f"{PACKAGE} --hash={HASH}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", folder]
        subprocess.run([*pip, "--requirement", wanted], check=True)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            text = package.read("axe_playwright_python/axe.min.js")
    part = target.with_suffix(".part")
    part.write_bytes(text)
    part.rename(target)
print(target)
