"""A real PostgreSQL for tests: Debian's, with a temporary data folder, as a non-root user."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.support.programs import free_port, missing
from tests.support.waiting import retry, still_running

DEADLINE = 60.0
SETTINGS = {"wal_level": "logical", "fsync": "off", "max_replication_slots": "30", "max_wal_senders": "30"}


def find_programs() -> str:
    """The folder of `initdb` and `postgres`: Debian keeps one for each version, and none on the path."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    if found:
        return str(Path(found[-1]).parent)
    named = shutil.which("initdb")
    if named is None:
        missing("no PostgreSQL here")
    return str(Path(named).resolve().parent)


class PostgresServer:
    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self.port = folder, port
        self._bin = find_programs()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def connect(
        self, database: str = "postgres", user: str = "postgres"
    ) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url(database, user), autocommit=True)

    def create(self) -> None:
        self._run(
            "initdb",
            "-D",
            str(self._folder / "data"),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "--locale=C.UTF-8",
        )

    def start(self, **settings: str) -> None:
        options = SETTINGS | settings | {"port": str(self.port), "listen_addresses": "127.0.0.1"}
        options["unix_socket_directories"] = str(self._folder)
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [f"{self._bin}/postgres", "-D", str(self._folder / "data"), *words]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **_unprivileged())
        self._wait()

    def stop(self, *, at_once: bool = False) -> None:
        """SIGINT ends all sessions and writes a checkpoint; SIGQUIT is a crash."""
        assert self._process is not None
        self._process.send_signal(3 if at_once else 2)
        self._process.wait(DEADLINE)

    def new_database(self, name: str) -> str:
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def drop(self, database: str) -> None:
        """With the slots in it."""
        with self.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,)
            )

            def drop() -> None:
                connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                    (database,),
                )
                connection.execute(f'DROP DATABASE "{database}" WITH (FORCE)')

            retry(drop, psycopg.errors.ObjectInUse, "sessions do not end", DEADLINE)

    def _run(self, name: str, *words: str) -> None:
        subprocess.run([f"{self._bin}/{name}", *words], check=True, capture_output=True, **_unprivileged())

    def _wait(self) -> None:
        assert self._process is not None
        ended = still_running(self._process, lambda: (self._folder / "log").read_text()[-2000:])
        error = psycopg.OperationalError
        retry(lambda: self.connect().close(), error, "PostgreSQL does not start", DEADLINE, meanwhile=ended)


@contextlib.contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    find_programs()
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    server = PostgresServer(folder, free_port())
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": "/"}
