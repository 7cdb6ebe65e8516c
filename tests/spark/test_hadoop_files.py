"""Files through Hadoop: exclusive creation, and completion by several writers."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.spark import hadoop_files
from barnabas.spark.hadoop_files import FoundFile, HadoopFolder, is_hidden, local_path


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


@pytest.mark.parametrize("way", ["replaces", "renames over", "deletes first"])
def test_a_text_is_replaced_by_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}/a folder")
    if way != "replaces":
        monkeypatch.setattr(hadoop_files, "local_path", lambda url: None)
    if way == "deletes first":  # as on a file system that has only Hadoop's old interface
        monkeypatch.setattr(folder, "_renamed_over", lambda aside, name: False)
    for text in ("first", "the second", "third"):
        folder.write_text("note", text)
        assert folder.read_text("note") == text
    assert folder.names() == ["note"]
    assert not list((tmp_path / "a folder").glob("*.new*"))


def test_a_text_that_is_replaced_is_never_missing_and_never_half_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}")
    texts = [str(number) * 1000 for number in range(40)]
    stream = folder._files.create(folder._path("note"), True)  # with a checksum file, as other writers do
    stream.write(bytearray(texts[0].encode()))
    stream.close()
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(lambda: list(map(partial(folder.write_text, "note"), texts)))
        while not writing.done():
            assert folder.read_text("note") in texts
        writing.result()
    assert folder.read_text("note") == texts[-1]


def test_temporary_files_of_a_killed_process_are_not_listed(spark: SparkSession, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}")
    folder.write_text("note", "text")
    (tmp_path / ".other.new").write_text("te")
    assert folder.names() == ["note"]


def test_hidden_files_are_those_that_spark_ignores() -> None:
    shown = ["part-0", "_topic=a/part-0", "day=1/_time_hour=7/part-0", "a_b/part_0"]
    hidden = ["_SUCCESS", "_barnabas/note", "day=1/.part-0.crc", ".day=1/part-0", "_temporary/0/day=1/part-0"]
    assert [name for name in (*shown, *hidden) if not is_hidden(name)] == shown


def test_files_that_spark_has_written_and_no_reader_would_find_are_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(name: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("rows")

    folder = HadoopFolder(spark, f"file://{tmp_path}")
    write("_SUCCESS")
    write("_temporary/0/part-0")  # of a task that was given up, and wrote on
    assert folder.written_files() == []
    write(".day=1/part-0")
    with pytest.raises(OSError, match=r"written 1 files .*\.day=1/part-0: rename"):
        folder.written_files()
    write("day=1/part-0")
    assert folder.written_files() == [FoundFile("day=1/part-0", 4)]


@pytest.mark.parametrize("way", ["walks", "asks Hadoop"])
def test_files_are_found_in_folders_of_any_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}/a folder")
    for name in ("region=a%2Fb/_day=1", "region=c d/_day=2", "_hidden"):
        folder.below(name).write_text("part-0", "rows")
    if way == "asks Hadoop":
        monkeypatch.setattr(hadoop_files, "local_path", lambda url: None)
    assert folder.all_files() == [
        FoundFile("region=a%2Fb/_day=1/part-0", 4),
        FoundFile("region=c d/_day=2/part-0", 4),
    ]
    assert folder.below("elsewhere").all_files() == []


def test_folder_that_disappears_during_listing_is_not_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}")
    folder.below("hour=7").write_text("note", "text")
    real, lost = folder._listed_once, [1, 2]

    def listed() -> list[FoundFile]:
        if lost:
            folder._files.listStatus(folder._path(f"gone-{lost.pop()}"))
        return real()

    monkeypatch.setattr(folder, "_listed_once", listed)
    assert folder.all_files() == [FoundFile("hour=7/note", 4)]
    assert not lost


def test_of_many_that_create_a_file_at_once_one_succeeds(spark: SparkSession, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}/notes")
    with ThreadPoolExecutor(8) as threads:
        for number in range(10):
            name = f"note-{number}"
            won = list(threads.map(lambda text, name=name: folder.create_text(name, text), "abcdefgh"))
            assert won.count(True) == 1
            assert folder.read_text(name) == "abcdefgh"[won.index(True)]


def test_file_already_moved_by_another_process_is_left_in_place(spark: SparkSession, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}")
    folder.write_text("old", "text")
    folder.move("old", "hour=7/new")
    folder.move("old", "hour=7/new")
    assert folder.read_text("hour=7/new") == "text"
    folder.write_text(
        "old", "text"
    )  # leftovers of a copy that was interrupted before it removed the original
    folder.move("old", "hour=7/new")
    assert (folder.exists("old"), folder.read_text("hour=7/new")) == (False, "text")


def test_urls_of_this_machine_have_a_path() -> None:
    assert local_path("file:///a/region=a%2Fb") == "/a/region=a%2Fb"
    assert local_path("file:/a b") == "/a b"
    assert local_path("/a/b") is None
    assert local_path("hdfs://namenode/a") is None
    assert local_path("s3a://bucket/a") is None
