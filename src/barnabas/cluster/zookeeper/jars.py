"""ZooKeeper's jars: where they are found, and how they are downloaded from a Maven repository.

15 jars (7 MB) are enough for a server; PySpark (700 MB) contains them, too. Downloads are checked against pinned
hashes, so that the repository need not be trusted.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from barnabas.common.http_client import HttpError, fetch

LIBS_VARIABLE = "BARNABAS_ZOOKEEPER_LIBS"
REPOSITORY_VARIABLE = "BARNABAS_MAVEN_REPOSITORY"
VERSION = "3.9.5"
INSTALL = "barnabas zookeeper install"
_JAR_SECONDS = 120.0  # for the largest, 2.3 MB, on a slow line
_MAX_JAR_BYTES = 8 * 1024 * 1024
_MAVEN_SECONDS = 600.0  # it may download its plugins first


class NoZooKeeperError(RuntimeError):
    """ZooKeeper cannot be started; the message says what is missing and how to install it."""


class Jar(NamedTuple):
    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Relative to the root of a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file}"


JARS = (
    Jar(
        "org.apache.zookeeper",
        "zookeeper",
        "3.9.5",
        "936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
    ),
    Jar(
        "org.apache.zookeeper",
        "zookeeper-jute",
        "3.9.5",
        "abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
    ),
    Jar(
        "org.slf4j", "slf4j-api", "2.0.13", "e7c2a48e8515ba1f49fa637d57b4e2f590b3f5bd97407ac699c3aa5efb1204a9"
    ),
    Jar(
        "org.slf4j",
        "slf4j-simple",
        "2.0.13",
        "3153fe1d689cffb94f1530b58470c306685ba68844de8857116e3b6ebb81d9f7",
    ),
    Jar(
        "io.dropwizard.metrics",
        "metrics-core",
        "4.1.12.1",
        "cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9",
    ),
    Jar(
        "org.xerial.snappy",
        "snappy-java",
        "1.1.10.5",
        "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b",
    ),
    Jar(
        "commons-io",
        "commons-io",
        "2.17.0",
        "4aa4ca48f3dfd30b78220b7881d8cb93eac4093ec94361b6befa9487998a550b",
    ),
    Jar(
        "io.netty",
        "netty-buffer",
        "4.1.130.Final",
        "00a522b67ea35cb7b4dd9cf27f85c6c58f5e306785aa045302e5f6b2d4944a87",
    ),
    Jar(
        "io.netty",
        "netty-codec",
        "4.1.130.Final",
        "52636bc29bd62120b97bbe5d1d21eab9b1cb2bef8efbb54d2221c5f3fa08d8cd",
    ),
    Jar(
        "io.netty",
        "netty-common",
        "4.1.130.Final",
        "53921f28dd5a352b1bed0e1cbcc54d013dc60ffebeae9b2b1e53eabef317e581",
    ),
    Jar(
        "io.netty",
        "netty-handler",
        "4.1.130.Final",
        "98c78ec187ca30a4b9775bf6f632f5c9929db6bf06a60e6971f945813880ca0f",
    ),
    Jar(
        "io.netty",
        "netty-resolver",
        "4.1.130.Final",
        "48c5b218a89d184e1b601d46433957f515fcefdb4464182b1348bce4f5a18f35",
    ),
    Jar(
        "io.netty",
        "netty-transport",
        "4.1.130.Final",
        "1bf573266d271f856705a9984d25449c56a1d73c02a16af12033ceccfe555dbb",
    ),
    Jar(
        "io.netty",
        "netty-transport-classes-epoll",
        "4.1.130.Final",
        "1c352508d70aca1ccc3068daac907ad1e9d8dc68b07148d57426730bf0d0c8b6",
    ),
    Jar(
        "io.netty",
        "netty-transport-native-unix-common",
        "4.1.130.Final",
        "cf5efc4168597d7cd14695b469418cac2a1134533f9a0c82ef0538d796fd39e1",
    ),
)


# -- Finding -------------------------------------------------------------------------------------------


def find_jars() -> Path:
    """The folder of an installed ZooKeeper's jars; NoZooKeeperError says how to install them."""
    for folder in _candidates():
        if any(folder.glob("zookeeper-[0-9]*.jar")):
            return folder
    raise NoZooKeeperError(
        f"ZooKeeper's jars were not found: `{INSTALL}` downloads them (7 MB), or set {LIBS_VARIABLE} to the folder "
        "`lib` of a ZooKeeper distribution."
    )


def _candidates() -> Iterator[Path]:
    if configured := os.environ.get(LIBS_VARIABLE):
        yield Path(configured)
    for root in (Path.cwd(), Path(__file__).parents[4]):
        yield from sorted(root.glob(".cache/zookeeper-*/libs"), reverse=True)
    yield default_folder()
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        yield Path(pyspark.origin).parent / "jars"


def default_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "barnabas" / f"zookeeper-{VERSION}"


# -- Downloading ---------------------------------------------------------------------------------------


def install_jars(repository: str | None = None, folder: Path | None = None) -> Path:
    """Download the jars into a folder, all or none.

    `repository`: the URL of a Maven repository; by default BARNABAS_MAVEN_REPOSITORY, or what the program mvn uses.
    """
    target = folder or default_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".zookeeper-") as temporary:
        downloaded = Path(temporary) / "jars"
        downloaded.mkdir()
        _downloader(repository or os.environ.get(REPOSITORY_VARIABLE))(downloaded)
        _check(downloaded)
        shutil.rmtree(target, ignore_errors=True)
        downloaded.rename(target)
    return target


def _downloader(repository: str | None) -> Callable[[Path], None]:
    if repository:
        return lambda folder: _from_repository(repository, folder)
    maven = shutil.which("mvn")
    if maven is None:
        raise NoZooKeeperError(
            f"No Maven repository is known: run `{INSTALL} --repository URL` with the URL of Maven Central or a "
            f"mirror, set {REPOSITORY_VARIABLE}, or install Maven, whose settings are used then."
        )
    return lambda folder: _with_maven(maven, folder)


def _from_repository(repository: str, folder: Path) -> None:
    for jar in JARS:
        url = f"{repository.rstrip('/')}/{jar.path}"
        try:
            response = fetch(url, timeout=_JAR_SECONDS, max_bytes=_MAX_JAR_BYTES, use_proxy=True)
            (folder / jar.file).write_bytes(response.raise_for_status().body)
        except HttpError as error:
            raise NoZooKeeperError(
                f"{url} answered with {error}: is it the root of a Maven repository?"
            ) from None
        except (OSError, ValueError) as error:
            raise NoZooKeeperError(f"Could not download {url}: {error}.") from None


def _with_maven(maven: str, folder: Path) -> None:
    """Maven knows the mirrors and credentials of this machine."""
    pom = folder.parent / "pom.xml"
    pom.write_text(_pom())
    command = [maven, "--quiet", "--batch-mode", "--file", str(pom), "dependency:copy-dependencies"]
    command += ["-DexcludeTransitive=true", f"-DoutputDirectory={folder}"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NoZooKeeperError(f"mvn did not end within {_MAVEN_SECONDS:.0f} s.") from None
    if ended.returncode != 0:
        raise NoZooKeeperError(f"mvn could not download ZooKeeper's jars:\n{ended.stdout[-2000:]}")


def _pom() -> str:
    project = ElementTree.Element("project", xmlns="http://maven.apache.org/POM/4.0.0")
    own = {"modelVersion": "4.0.0", "groupId": "barnabas", "artifactId": "zookeeper-jars", "version": "1"}
    for name, text in own.items():
        ElementTree.SubElement(project, name).text = text
    dependencies = ElementTree.SubElement(project, "dependencies")
    for jar in JARS:
        dependency = ElementTree.SubElement(dependencies, "dependency")
        for name, text in (("groupId", jar.group), ("artifactId", jar.name), ("version", jar.version)):
            ElementTree.SubElement(dependency, name).text = text
    return ElementTree.tostring(project, encoding="unicode")


def _check(folder: Path) -> None:
    for jar in JARS:
        path = folder / jar.file
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "missing"
        if found != jar.sha256:
            raise NoZooKeeperError(
                f"{jar.file} is not the expected file (SHA-256 {found} instead of {jar.sha256}): "
                "nothing was installed."
            )
