#!/usr/bin/env python3
"""Puts the schema of SARIF 2.1.0 into a folder: `sarif_schema.py FOLDER`, and prints where.

OASIS has published it; it is taken from a crate that has it inside, of one version with one hash: it is not ours, so it is not in
the repository, and only a test needs it."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile

CRATE = "serde-sarif"
VERSION = "0.8.0"
SHA256 = "af47e7b67f24efe74076621fd3a5fbe7398add9e84fe820c971219a385895cea"

target = pathlib.Path(sys.argv[1]) / "sarif-schema-2.1.0.json"
if not target.exists():
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder)
        (project / "src").mkdir()
        (project / "src/lib.rs").touch()
        (project / "Cargo.toml").write_text(
            f'[package]\nname = "schema"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n{CRATE} = "={VERSION}"\n'
        )
        vendor = ["cargo", "vendor", "--quiet", "--versioned-dirs", project / "vendor"]
        subprocess.run(vendor, check=True, cwd=project, stdout=subprocess.DEVNULL)
        text = (project / "vendor" / f"{CRATE}-{VERSION}" / "src/schema.json").read_bytes()
    if hashlib.sha256(text).hexdigest() != SHA256:
        sys.exit(f"the schema in {CRATE} {VERSION} is not the one that it was")
    part = target.with_suffix(".part")
    part.write_bytes(text)
    part.rename(target)
print(target)
