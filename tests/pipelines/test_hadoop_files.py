"""Files through Hadoop: what is created once, and what several may finish."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines import hadoop_files
from barnabas.pipelines.hadoop_files import HadoopFolder, local_path


def refuse(*names: str) -> None:
    raise OSError(errno.EPERM, "no second names here")


@pytest.mark.parametrize("way", ["links", "no links", "renames"])
def test_a_file_is_created_once_and_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "no links":
        monkeypatch.setattr(os, "link", refuse)
    if way == "renames":  # as on a file system that is not of this machine
        monkeypatch.setattr(hadoop_files, "local_path", lambda url: None)
    folder = HadoopFolder(spark, f"file://{tmp_path}/a folder/region=a%2Fb")
    assert folder.create_text("note", "first")
    assert not folder.create_text("note", "second")
    assert folder.read_text("note") == "first"
    assert folder.names() == ["note"]


def test_of_many_that_create_a_file_at_once_one_succeeds(spark: SparkSession, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}/notes")
    with ThreadPoolExecutor(8) as threads:
        for number in range(10):
            name = f"note-{number}"
            won = list(threads.map(lambda text, name=name: folder.create_text(name, text), "abcdefgh"))  # type: ignore[misc]
            assert won.count(True) == 1
            assert folder.read_text(name) == "abcdefgh"[won.index(True)]


def test_a_file_that_somebody_has_moved_already_is_left_where_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}")
    folder.write_text("old", "text")
    folder.move("old", "hour=7/new")
    folder.move("old", "hour=7/new")
    assert folder.read_text("hour=7/new") == "text"
    folder.write_text("old", "text")  # what a copy leaves that was interrupted before it removed the original
    folder.move("old", "hour=7/new")
    assert (folder.exists("old"), folder.read_text("hour=7/new")) == (False, "text")


def test_urls_of_this_machine_have_a_path() -> None:
    assert local_path("file:///a/region=a%2Fb") == "/a/region=a%2Fb"
    assert local_path("file:/a b") == "/a b"
    assert local_path("/a/b") is None
    assert local_path("hdfs://namenode/a") is None
    assert local_path("s3a://bucket/a") is None
