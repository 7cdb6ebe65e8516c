"""The archive of Spark's classes is used only for its Java and Spark versions."""

from pathlib import Path

import pytest

from barnabas.spark.worker_process import archive_options, archive_path, quoted, shares_classes


def _java(home: Path, text: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(text)
    java.chmod(0o755)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    (tmp_path / "cache" / "barnabas").mkdir(parents=True)
    _java(tmp_path / "java", "#!/bin/sh\n")
    return tmp_path / "java"


def test_without_an_archive_java_gets_no_options(home: Path) -> None:
    assert archive_options() == []


def test_an_archive_that_is_there_is_used(home: Path) -> None:
    archive = archive_path()
    assert archive is not None
    archive.touch()
    assert archive_options()[0] == f"-XX:SharedArchiveFile={archive}"


def test_another_java_has_an_archive_of_its_own(home: Path) -> None:
    before = archive_path()
    _java(home, "#!/bin/sh\nexit 1\n")
    assert archive_path() != before


def test_without_java_there_is_no_archive(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home / "elsewhere"))
    assert archive_path() is None


def test_java_without_class_sharing_is_reported(home: Path) -> None:
    assert shares_classes()
    _java(home, "#!/bin/sh\nexit 1\n")
    assert not shares_classes()


def test_options_with_blanks_stay_whole() -> None:
    assert quoted(["-Da=b c", "-Xint"]) == "'-Da=b c' -Xint"
