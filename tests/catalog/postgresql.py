"""A PostgreSQL server of one's own: where its programs are, and how it is started and ended."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ELSEWHERE = "/usr/lib/postgresql"  # Debian has a folder for each version there, and none of them on PATH


class NoServer(Exception):
    """There is none on this machine, and why."""


def initdb() -> Path | None:
    """The program that makes a server's folder; the others lie beside it."""
    folders = [os.environ.get("PATH", ""), *sorted(map(str, Path(ELSEWHERE).glob("*/bin")), reverse=True)]
    binary = shutil.which("initdb", path=os.pathsep.join(folders))
    return None if binary is None else Path(binary).resolve()


def server_user() -> dict[str, Any]:
    """Arguments of subprocess that start the server as someone whom it accepts: not as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise NoServer("this is root, and there is neither the user postgres nor nobody")


@contextmanager
def running(sync: bool = False) -> Iterator[str]:
    """The URL of a server on loopback that begins empty and ends with the block; ``sync``: with fsync.

    Raises:
        NoServer: it cannot be had.
    """
    program = initdb()
    if program is None:
        raise NoServer(f"initdb is neither on PATH nor in {ELSEWHERE}; apt install postgresql")
    user = server_user()
    folder = Path(tempfile.mkdtemp(prefix="deltanb-postgresql-"))
    if user:
        os.chown(folder, user["user"], user["group"])
    data, log = folder / "data", folder / "log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = (f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= "
                f"-c fsync={'on' if sync else 'off'} -c max_connections=60 -c shared_buffers=16MB")
    control = [str(program.with_name("pg_ctl")), "-D", str(data), "-s"]

    def run(*command: str) -> None:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **user)
        if done.returncode:
            output = done.stderr.decode(errors="replace") + (log.read_text() if log.exists() else "")
            raise NoServer(f"{Path(command[0]).name} failed: {output}")

    try:
        run(str(program), "-D", str(data), "-A", "trust", "-U", "deltanb", "-N", "-E", "UTF8", "--no-locale")
        run(*control, "-w", "-l", str(log), "-o", settings, "start")
        try:
            yield f"postgresql://deltanb@127.0.0.1:{port}/postgres"
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_connections(url: str) -> None:
    """Close all other connections to the server, as a restart of it does."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
