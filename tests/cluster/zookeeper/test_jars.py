"""ZooKeeper's jars: found where installed, or downloaded from an untrusted repository."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from barnabas.cluster.zookeeper import ZooKeeperProcess
from barnabas.cluster.zookeeper import jars as zookeeper_jars
from barnabas.cluster.zookeeper.jars import (
    JARS,
    LIBS_VARIABLE,
    REPOSITORY_VARIABLE,
    NoZooKeeperError,
    find_jars,
    install_jars,
)
from barnabas.cluster.zookeeper.process import answers
from tests.support.cli import Cli
from tests.support.programs import PROJECT_ROOT, find, missing


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """No lines on standard error."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a Maven repository."""
    cached = PROJECT_ROOT / ".cache" / f"zookeeper-{zookeeper_jars.VERSION}" / "libs"
    if not cached.exists():
        missing("no jars of ZooKeeper here (`make java`)")
    for jar in JARS:
        path = tmp_path / "repository" / jar.path
        path.parent.mkdir(parents=True)
        shutil.copy(cached / jar.file, path)
    return tmp_path / "repository"


@pytest.fixture
def repository(root: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_downloaded_jars_are_enough_for_a_server(
    repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Cli("").ok("zookeeper", "install", "--repository", repository)
    folder = tmp_path / "cache" / "barnabas" / f"zookeeper-{zookeeper_jars.VERSION}"
    assert sorted(each.name for each in folder.iterdir()) == sorted(jar.file for jar in JARS)
    monkeypatch.setenv(LIBS_VARIABLE, str(folder))
    with ZooKeeperProcess(tmp_path / "server") as process:
        assert answers(process.host, process.port)


def test_a_changed_jar_is_refused_and_nothing_is_installed(
    repository: str, root: Path, tmp_path: Path
) -> None:
    changed = root / JARS[3].path
    changed.write_bytes(changed.read_bytes() + b"x")
    with pytest.raises(NoZooKeeperError, match=f"{JARS[3].file} is not the expected file"):
        install_jars(repository, tmp_path / "jars")
    assert not (tmp_path / "jars").exists()


def test_a_repository_without_the_jars_is_named(
    repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, repository + "other")
    with pytest.raises(
        NoZooKeeperError, match=r"/other/org/.*HTTP status 404.*the root of a Maven repository"
    ):
        install_jars(None, tmp_path / "jars")
    with pytest.raises(NoZooKeeperError, match="Could not download ftp://x"):
        install_jars("ftp://x", tmp_path / "jars")


def test_missing_repository_and_maven_are_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPOSITORY_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoZooKeeperError, match=REPOSITORY_VARIABLE):
        install_jars()


@pytest.mark.extended
def test_maven_downloads_the_same_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find("mvn")
    monkeypatch.delenv(REPOSITORY_VARIABLE, raising=False)
    install_jars(None, tmp_path / "jars")
    assert len(list((tmp_path / "jars").iterdir())) == len(JARS)


def test_jars_are_found_through_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "zookeeper-3.9.5.jar").touch()
    monkeypatch.setenv(LIBS_VARIABLE, str(tmp_path))
    assert find_jars() == tmp_path


def test_missing_jars_are_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_jars, "_candidates", lambda: iter(()))
    with pytest.raises(NoZooKeeperError, match=f"`barnabas zookeeper install`.*{LIBS_VARIABLE}"):
        find_jars()
