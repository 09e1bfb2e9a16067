"""A PostgreSQL server of one's own, which can be killed and started again."""

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tools():
    versions = [path for path in Path("/usr/lib/postgresql").glob("*") if (path / "bin/postgres").exists()]
    if not versions:
        raise SystemExit("PostgreSQL is not installed: make setup")
    return max(versions, key=lambda path: int(path.name)) / "bin"


def unprivileged(program, *words):
    """PostgreSQL refuses to be root; and it is to end with us."""
    other = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []
    return ["setpriv", "--pdeathsig", "QUIT", *other, str(program), *map(str, words)]


class Postgres:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        os.chmod(self.folder.name, 0o777)
        self.port, self.databases = free_port(), 0
        subprocess.run(unprivileged(tools() / "initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale",
                                    "C", "-D", "cluster"), cwd=self.folder.name, check=True, stdout=subprocess.DEVNULL)
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def start(self):
        log = Path(self.folder.name) / "log"
        until = time.monotonic() + 60
        while time.monotonic() < until:
            self.process = subprocess.Popen(
                unprivileged(tools() / "postgres", "-D", "cluster", "-p", self.port, "-c", "listen_addresses=127.0.0.1", "-c",
                             "unix_socket_directories=", "-c", "shared_buffers=64MB"),
                cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=log.open("w"), stderr=subprocess.STDOUT)
            while self.process.poll() is None and time.monotonic() < until:
                if "ready to accept connections" in log.read_text(errors="replace"):
                    return
                time.sleep(0.02)
            # What a killed one leaves takes a moment to go.
            time.sleep(0.1)
        raise SystemExit(f"PostgreSQL does not start:\n{log.read_text(errors='replace')}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def database(self):
        """The address of a new database."""
        self.databases += 1
        name = f"bugs{self.databases}"
        subprocess.run([tools() / "psql", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-c",
                        f"CREATE DATABASE {name}"], check=True)
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}"
