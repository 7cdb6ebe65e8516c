"""Java libraries for pipelines, by short name, and how they are downloaded.

`barnabas.jars: s3a` in the configuration of a pipeline is enough: Spark downloads them at startup and caches them.
Libraries that Spark already has are excluded, and so is Amazon's bundle of 686 MB, of which S3 needs 13.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from barnabas.spark.errors import PipelineError
from barnabas.spark.java import prepare_java

SETTING = "barnabas.jars"
PACKAGES, EXCLUDES = "spark.jars.packages", "spark.jars.excludes"
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"

HADOOP = "3.5.0"  # as in Spark 4.2 and 4.3
AMAZON = "2.35.4"  # the version that this Hadoop was built with
ICEBERG = "1.12.0"
DELTA = "4.4.0"
POSTGRES = "42.7.8"


class Library(NamedTuple):
    about: str
    packages: tuple[str, ...]
    excludes: tuple[str, ...] = ()


# Spark includes these, mostly newer.
_SPARKS_OWN = tuple(
    f"{group}:*"
    for group in (
        "com.fasterxml.jackson*",
        "com.github.luben",
        "com.google.code.findbugs",
        "commons-codec",
        "commons-logging",
        "commons-pool",
        "io.airlift",
        "io.netty",
        "javax.annotation",
        "org.apache.avro",
        "org.apache.commons",
        "org.apache.httpcomponents*",
        "org.apache.logging.log4j",
        "org.apache.parquet",
        "org.apache.spark",
        "org.checkerframework",
        "org.roaringbitmap",
        "org.scala-lang*",
        "org.slf4j",
        "org.xerial.snappy",
    )
)
_HADOOP = ("org.apache.hadoop:hadoop-client*", "org.apache.hadoop:hadoop-common")

LIBRARIES = {
    "s3a": Library(
        "s3a:// URLs: Amazon S3 and stores that speak its protocol",
        (
            f"org.apache.hadoop:hadoop-aws:{HADOOP}",
            *(
                f"software.amazon.awssdk:{each}:{AMAZON}"
                for each in ("s3-transfer-manager", "sts", "apache-client")
            ),
        ),
        ("software.amazon.awssdk:bundle",),
    ),
    "iceberg": Library("`format: iceberg` of a lake", (f"org.apache.iceberg:iceberg-parquet:{ICEBERG}",)),
    # Delta Kernel works with every Spark; Delta's Spark module supports one version each.
    "delta": Library(
        "tables of Delta Lake",
        (f"io.delta:delta-kernel-api:{DELTA}", f"io.delta:delta-kernel-defaults:{DELTA}"),
        ("io.unitycatalog:*",),
    ),
    "postgres": Library("JDBC to PostgreSQL", (f"org.postgresql:postgresql:{POSTGRES}",)),
}


def with_libraries(configuration: Mapping[str, str]) -> dict[str, str]:
    """Spark configuration with the packages of the libraries that it names."""
    named = _listed(configuration.get(SETTING, ""))
    if not named:
        return dict(configuration)
    chosen = [_library(name) for name in named]
    packages = [*_listed(configuration.get(PACKAGES, "")), *(each for one in chosen for each in one.packages)]
    excludes = [*_listed(configuration.get(EXCLUDES, "")), *(each for one in chosen for each in one.excludes)]
    excludes += [*_SPARKS_OWN, *_HADOOP]
    return {**configuration, PACKAGES: _joined(packages), EXCLUDES: _joined(excludes)}


def fetch(names: Iterable[str], folder: Path | None = None) -> list[Path]:
    """Return the jars of some libraries, downloaded by Spark unless cached, and copied to a folder."""
    wanted = with_libraries({SETTING: _joined(list(names))})
    arguments = f"--packages {wanted[PACKAGES]} --exclude-packages {wanted[EXCLUDES]} pyspark-shell"
    with _java(arguments) as gateway:
        found = _listed(gateway.jvm.System.getProperty("spark.jars") or "")
    jars = [Path(unquote(urlsplit(each).path)) for each in found]
    if folder is None:
        return jars
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(jar, folder)) for jar in jars]


@contextmanager
def _java(arguments: str) -> Iterator[Any]:
    """A JVM started by `spark-submit` with these arguments: it has downloaded the packages and runs nothing."""
    from pyspark.java_gateway import launch_gateway

    prepare_java()
    before = os.environ.get(SUBMIT_ARGUMENTS)
    os.environ[SUBMIT_ARGUMENTS] = arguments
    try:
        gateway = launch_gateway()
    except Exception as error:
        raise PipelineError(
            "Spark could not fetch the jars: the lines above say which. Without the Internet, copy a folder of them "
            "from a machine that has it (`barnabas pipeline jars NAME --to FOLDER`) and set `spark.jars: FOLDER/*`.",
            error,
        ) from error
    finally:
        os.environ.pop(SUBMIT_ARGUMENTS)
        if before is not None:
            os.environ[SUBMIT_ARGUMENTS] = before
    try:
        yield gateway
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # it exits at the end of its input
        gateway.proc.wait()


def _library(name: str) -> Library:
    if name not in LIBRARIES:
        raise PipelineError(
            f"Unknown library {name!r} in `{SETTING}`; libraries: {', '.join(sorted(LIBRARIES))}."
        )
    return LIBRARIES[name]


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _joined(parts: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(parts))
