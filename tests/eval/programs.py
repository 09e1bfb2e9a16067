"""Programs with facts: the zoo's, or those of any folder that is laid out like it. They are built by the zoo's rules."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT / "tests/zoo"
sys.path.insert(0, str(ZOO))
import zoo  # noqa: E402  (the reader of facts lives beside them)

LEVELS = zoo.LEVELS


class Subject(zoo.Program):
    """A program at one level of optimisation."""

    def __init__(self, folder, level, build):
        super().__init__(folder)
        self.level, self.build = level, build

    def binary(self, level):
        return self.build / level / self.name

    @property
    def path(self):
        return self.binary(self.level)

    @property
    def command(self):
        return [str(self.path), *self.facts["args"]]

    @property
    def hangs(self):
        return self.facts["failure"]["kind"] == "hang"


def built(folders, levels, names, out):
    """The programs of some folders, built; the binaries of a folder that is not the zoo go below `out`."""
    subjects = []
    for number, folder in enumerate(folders):
        folder = folder.resolve()
        build = folder / "build" if folder == ZOO else out / f"build-{number}"
        found = sorted(f.parent for f in folder.glob("*/facts.toml") if not names or f.parent.name in names)
        targets = [str(build / level / f.name) for level in levels for f in found]
        if targets:
            subprocess.run(["make", "-s", "-j2", "-C", folder, "-f", ZOO / "Makefile", f"BUILD={build}", *targets],
                           check=True)
        subjects += [Subject(f, level, build) for f in found for level in levels]
    for subject in subjects:
        problems = subject.check()
        if problems:
            raise SystemExit(f"eval: {subject.name}: {problems[0]}")
    return subjects
