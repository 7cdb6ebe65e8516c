"""A store that denies all access (403): one clear message, nothing else stops, and copying starts when access is
granted."""

from __future__ import annotations

import http.client
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from barnabas.broker.tiering.tiering import Tiering
from barnabas.testing import EmbeddedBroker
from tests.broker.test_tiering import TIERED, consume, local_bases, produce
from tests.support.programs import free_port, versitygw
from tests.support.tiering.stores import BUCKET, SECRET, moto_server, s3_options
from tests.support.waiting import until

ROOT, USER = "root-of-tests", "tests"

Refusing = tuple[dict[str, str], Callable[[], object]]
"""The options of a store in which we have no rights, and what grants them."""


@contextmanager
def moto(_folder: Path) -> Iterator[Refusing]:
    with moto_server({"INITIAL_NO_AUTH_ACTION_COUNT": "1"}) as options:

        def grant() -> None:
            where = urlsplit(options["endpoint"])
            connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=60)
            connection.request("POST", "/moto-api/reset-auth", "1000000")
            assert connection.getresponse().status == 200
            connection.close()

        yield options, grant


@contextmanager
def versity(folder: Path) -> Iterator[Refusing]:
    """Its own accounts: a user has rights on the buckets that it owns."""
    program = versitygw()
    if program is None:
        pytest.skip("versitygw is not installed: make object-stores-install")
    for name in ("accounts", f"store/{BUCKET}"):
        (folder / name).mkdir(parents=True)
    port = free_port()
    keys = {"ROOT_ACCESS_KEY": ROOT, "ROOT_SECRET_KEY": SECRET}
    command = [program, "--port", f"127.0.0.1:{port}", "--quiet", "--iam-dir", str(folder / "accounts")]
    server = subprocess.Popen(
        [*command, "--iam-cache-disable", "posix", str(folder / "store")], env={**os.environ, **keys}
    )

    def admin(*arguments: str) -> bool:
        where = ["--access", ROOT, "--secret", SECRET, "--endpoint-url", f"http://127.0.0.1:{port}"]
        done = subprocess.run([program, "admin", *where, *arguments], capture_output=True, check=False)
        return done.returncode == 0

    try:
        own = ("change-bucket-owner", "--bucket", BUCKET, "--owner", USER)
        create = ("create-user", "--access", USER, "--secret", SECRET, "--role", "user")
        until(lambda: admin(*create), "versitygw takes no user")
        yield (
            s3_options(port),
            lambda: until(lambda: admin(*own), "the owner of the bucket is not changed"),
        )
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("refusing", [moto, versity])
def test_store_without_access_is_reported_once_and_blocks_nothing_else(
    refusing: Callable[[Path], Iterator[Refusing]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), refusing(tmp_path) as (options, grant):  # type: ignore[attr-defined]
        settings = {
            "remote.log.storage.system.enable": "true",
            "barnabas.remote.storage.url": f"s3://{BUCKET}/rights",
            "remote.log.manager.task.interval.ms": "50",
            "log.retention.check.interval.ms": "100",
            **{f"rsm.config.{name}": value for name, value in options.items()},
        }
        with EmbeddedBroker(settings, data_dir=tmp_path / "data") as broker:
            topic = broker.create_topic(configs=TIERED)
            produce(broker, topic, 0, 3000)
            assert consume(broker, topic, 3000) == list(range(3000))
            tiering = broker.broker.tiering
            assert isinstance(tiering, Tiering)
            problem = tiering.problem.text
            assert f"s3://{BUCKET}" in problem
            assert "denies access" in problem
            assert SECRET not in caplog.text
            assert len(local_bases(broker, topic)) > 1, "nothing leaves the disk that is not copied"
            warnings = [each for each in caplog.records if "denies access" in each.getMessage()]
            assert len(warnings) == 1, [each.getMessage() for each in warnings]
            grant()
            until(lambda: len(local_bases(broker, topic)) == 1, "what was not copied is copied")
            assert tiering.problem.text == ""
            assert consume(broker, topic, 3000) == list(range(3000))
