"""Tables and state of pipelines in an object store through S3A: conditional creation, and two runs."""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.definitions.settings import Compaction, Lake
from barnabas.pipelines.lake.writer import Compactor, LakeWriter
from barnabas.pipelines.running import state_lease
from barnabas.pipelines.running.state_lease import Lease, StateLease
from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder
from barnabas.testing import EmbeddedBroker
from tests.support.spark.jars import requires_s3a
from tests.support.spark.workbench import Workbench
from tests.support.tiering.stores import BUCKET, NAMED_OPTIONS, SECRET, moto_server
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(300), requires_s3a]


def s3_server() -> AbstractContextManager[dict[str, str]]:
    """The one that `make object-stores` names, or moto."""
    named = os.environ.get(NAMED_OPTIONS)
    return nullcontext(json.loads(named)) if named else moto_server()


@pytest.fixture(scope="module")
def bucket(spark: SparkSession) -> Iterator[str]:
    with s3_server() as options:
        settings = {
            "endpoint": options["endpoint"],
            "endpoint.region": "us-east-1",
            "access.key": options["access_key_id"],
            "secret.key": SECRET,
            "path.style.access": "true",
        }
        for name, value in settings.items():
            spark._jsc.hadoopConfiguration().set(f"fs.s3a.{name}", value)
        yield f"s3a://{BUCKET}"


@pytest.fixture
def folder(spark: SparkSession, bucket: str, tmp_path: Path) -> HadoopFolder:
    return HadoopFolder(spark, f"{bucket}/{tmp_path.name}")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_lease, "RENEW_SECONDS", 0.2)
    monkeypatch.setattr(state_lease, "LEASE_SECONDS", 1.0)


def test_of_many_that_create_an_object_one_succeeds(folder: HadoopFolder) -> None:
    assert folder.creates_once()
    with ThreadPoolExecutor(8) as threads:
        for number in range(3):
            name = f"note-{number}"
            won = list(threads.map(lambda text, name=name: folder.create_text(name, text), "abcdefgh"))
            assert won.count(True) == 1
            assert folder.read_text(name) == "abcdefgh"[won.index(True)]


def test_a_text_is_replaced_by_one_put_and_never_missing(folder: HadoopFolder) -> None:
    texts = [str(number) * 100 for number in range(12)]
    folder.write_text("note", texts[0])
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(lambda: list(map(partial(folder.write_text, "note"), texts)))
        while not writing.done():
            assert folder.read_text("note") in texts
        writing.result()
    assert (folder.read_text("note"), folder.names()) == (texts[-1], ["note"])


def test_store_without_conditional_writes_is_rejected_with_a_message(
    spark: SparkSession, folder: HadoopFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HadoopFolder, "_has_conditions", False)  # as reported by S3A for stores without it
    with pytest.raises(PipelineError, match="Use a store with conditional writes"):
        LakeWriter(spark, Lake(path=folder.url), ["date", "hour"], "query-1")


def batch_of(spark: SparkSession, number: int, hour: int = 7) -> DataFrame:
    return spark.range(3).selectExpr(
        f"concat('{number}-', id) AS key", "'2026-11-16' AS date", f"{hour} AS hour"
    )


def keys_in(spark: SparkSession, folder: HadoopFolder) -> Counter[str]:
    return Counter(row.key for row in spark.read.parquet(folder.url).collect())


def once(*batches: int) -> Counter[str]:
    return Counter(f"{number}-{row}" for number in batches for row in range(3))


def test_of_two_drivers_that_write_one_batch_one_wins_and_the_other_stops(
    spark: SparkSession, folder: HadoopFolder
) -> None:
    lake = Lake(path=folder.url, files_per_batch=1)
    writers = [LakeWriter(spark, lake, ["date", "hour"], "query-1") for _ in range(2)]
    start = threading.Barrier(2)

    def write(writer: LakeWriter, number: int) -> str:
        frame = batch_of(spark, number)
        start.wait()
        try:
            writer(frame, number)
        except PipelineError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as threads:
        for number in range(2):
            ends = list(threads.map(lambda writer, number=number: write(writer, number), writers))
            # A late driver finds the batch decided, as after a crash, and finishes it; a later one stops.
            assert [end for end in ends if "Another run of this pipeline has written" not in end] != []
    assert keys_in(spark, folder) == once(0, 1)


def test_file_that_a_suspended_driver_restores_after_a_merge_is_removed(
    spark: SparkSession, folder: HadoopFolder
) -> None:
    writer = LakeWriter(spark, Lake(path=folder.url, files_per_batch=1), ["date", "hour"], "query-1")
    for number in range(2):
        writer(batch_of(spark, number), number)
    writer(batch_of(spark, 2, hour=12), 2)
    first = next(file.name for file in folder.all_files() if "hour=7" in file.name)
    spark.read.parquet(folder.path_of(first)).write.parquet(folder.path_of("_copy"))
    compactor = Compactor(spark, folder, Compaction(files=2, after="1 hour"))
    assert compactor.run() == 1
    copied = next(file.name for file in folder.below("_copy").all_files())
    folder.move(f"_copy/{copied}", first)  # the end of a copy started before the merge
    assert keys_in(spark, folder) != once(0, 1, 2)
    assert compactor.run() == 0
    assert keys_in(spark, folder) == once(0, 1, 2)


def test_a_pipeline_keeps_its_table_and_its_state_in_a_bucket(
    spark: SparkSession, broker: EmbeddedBroker, bucket: str, tmp_path: Path
) -> None:
    settings = {
        "warehouse.topics": broker.create_topic(partitions=1),
        "warehouse.path": f"{bucket}/{tmp_path.name}/events",
    }
    bench = Workbench("warehouse", tmp_path / "pipeline", broker.bootstrap_servers, settings)
    spec = bench.folder / "spark-pipeline.yml"
    spec.write_text(
        spec.read_text().replace(f"storage: file://{bench.folder}", f"storage: {bucket}/{tmp_path.name}")
    )
    bench.reload()
    made = bench.generate(60, per_second=0.05)
    for part in range(2):
        bench.send(made[part::2])
        bench.run(spark)
    keys = [bytes(row.key) for row in spark.read.parquet(settings["warehouse.path"]).select("key").collect()]
    assert Counter(keys) == Counter((record.key or "").encode() for record in made)
    storage = HadoopFolder(spark, f"{bucket}/{tmp_path.name}/storage")
    assert not storage.exists(state_lease.NAME)


@pytest.mark.usefixtures("quick")
def _fail(error: PipelineError) -> None:
    pytest.fail(str(error))


def test_a_second_run_is_refused_while_the_first_renews_its_lease(folder: HadoopFolder) -> None:
    first = StateLease(folder, "clicks", _fail)
    with first, first, pytest.raises(PipelineError, match=r"clicks runs already, in process \d+ on "):
        StateLease(folder, "clicks", _fail).take()
    assert not folder.exists(state_lease.NAME)
    with StateLease(folder, "clicks", _fail):
        pass


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("host", ["this", "another"])
def test_the_lease_of_a_run_that_died_is_taken_over(folder: HadoopFolder, host: str) -> None:
    child = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(child, 0)
    dead = Lease("x", os.uname().nodename if host == "this" else "elsewhere", child)
    folder.write_text(state_lease.NAME, state_lease._text(dead))
    with StateLease(folder, "clicks", _fail):
        pass


@pytest.mark.usefixtures("quick")
def test_a_run_whose_lease_was_taken_over_while_it_slept_stops(folder: HadoopFolder) -> None:
    lost: list[PipelineError] = []
    with StateLease(folder, "clicks", lost.append):
        folder.write_text(state_lease.NAME, state_lease._text(Lease("y", "elsewhere", 7)))
        until(lambda: lost)
    assert "process 7 on elsewhere has taken over clicks" in str(lost[0])
    assert folder.exists(state_lease.NAME)  # it is the other's
