"""Deployment of Spark: chosen by the caller, spark-submit, SPARK_REMOTE, spark-defaults.conf or the environment.

The first of these that names a master decides, in Spark's order. Masters are checked before Spark starts: Spark itself
waits a minute for one that does not respond, and then fails with a Java stack.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pyspark
from pyspark.version import __version__ as spark_version

from barnabas.common.installation import install_command
from barnabas.spark.errors import PipelineError

OLDEST, NEWEST = (4, 2), (4, 3)  # as in pyproject.toml
LOCAL = "local[*]"
MASTER, REMOTE, DEPLOY_MODE = "spark.master", "spark.remote", "spark.submit.deployMode"
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit: it has started the JVM, and this process is its child."""
CONNECT_SECONDS = 5.0
DEFAULT_PORTS = {"sc": 15002, "k8s": 443, "spark": 7077}

_PROPERTY = re.compile(r"([^\s=:]+)[\s=:]+(.*)")
_OPTIONS = {"--master": MASTER, "--remote": REMOTE, "--deploy-mode": DEPLOY_MODE}
_YARN_ADDRESSES = ("yarn.resourcemanager.address", "yarn.resourcemanager.hostname")


class Deployment(NamedTuple):
    master: str
    """Empty with Spark Connect."""
    remote: str
    """URL of a Spark Connect server; empty with a master."""
    given: Mapping[str, str]
    """Settings from outside the program. They take precedence over our defaults."""
    is_submitted: bool

    @property
    def is_local(self) -> bool:
        return self.master == "local" or self.master.startswith("local[")

    @property
    def is_in_cluster(self) -> bool:
        """True if the driver itself runs on the cluster."""
        return self.given.get(DEPLOY_MODE) == "cluster"


def deployment_of(master: str | None, settings: Mapping[str, str]) -> Deployment:
    """Return the deployment of the next session. `master` and `settings` are those of the caller and come first."""
    is_submitted = GATEWAY in os.environ
    values = _submitted_settings() if is_submitted else configured_settings()
    if master is not None:
        return Deployment(master, "", values, is_submitted)
    remote = settings.get(REMOTE) or os.environ.get("SPARK_REMOTE") or values.get(REMOTE, "")
    if remote and MASTER not in settings:
        return Deployment("", remote, values, is_submitted)
    chosen = settings.get(MASTER) or values.get(MASTER) or os.environ.get("MASTER") or LOCAL
    return Deployment(chosen, "", values, is_submitted)


def _submitted_settings() -> dict[str, str]:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM of spark-submit
    return dict(SparkConf().getAll())


def configured_settings() -> dict[str, str]:
    """Settings that the JVM will read at its start: spark-defaults.conf and PYSPARK_SUBMIT_ARGS."""
    found = dict(_arguments(os.environ.get(SUBMIT_ARGUMENTS, "")))
    path = Path(found.pop("--properties-file", "") or _configuration_folder() / "spark-defaults.conf")
    return {**(_properties(path.read_text()) if path.is_file() else {}), **found}


def _configuration_folder() -> Path:
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    return Path(os.environ.get("SPARK_CONF_DIR") or f"{home}/conf")


def _properties(text: str) -> dict[str, str]:
    """Java's properties, as Spark documents its file: a name, white space, a value."""
    lines = (line.strip() for line in text.splitlines())
    matches = (_PROPERTY.fullmatch(line) for line in lines if not line.startswith(("#", "!")))
    return {found[1]: found[2] for found in matches if found is not None}


def _arguments(text: str) -> Iterator[tuple[str, str]]:
    words = iter(shlex.split(text))
    for word in words:
        option, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in _OPTIONS:
            yield _OPTIONS[option], value if has_value else next(words, "")
        elif option in ("--conf", "-c"):
            name, _, set_to = (value if has_value else next(words, "")).partition("=")
            yield name, set_to
        elif option == "--properties-file":
            yield option, value if has_value else next(words, "")


# -- Checks before Spark starts ------------------------------------------------------------------------


def require_supported_spark(version: str = spark_version) -> None:
    """PipelineError for a Spark that Barnabas is not tested with."""
    found = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if not OLDEST <= found <= NEWEST:
        raise PipelineError(
            f"Barnabas runs on Spark 4.2 and 4.3, and this is Spark {version}: "
            f"`{install_command('pyspark>=4.2,<4.4')}`, and use a cluster of the same version."
        )


def require_reachable(deployment: Deployment) -> None:
    """PipelineError if no master answers. Masters of other kinds than Spark's own are not checked."""
    if deployment.is_local or deployment.is_in_cluster:
        return
    name = deployment.remote or deployment.master
    if name == "yarn":
        _require_yarn()
        return
    addresses = list(_addresses(name))
    if addresses:
        _require_answer(f"No Spark master answers at {name}", addresses)


def _addresses(url: str) -> Iterator[tuple[str, int]]:
    """Addresses in spark://HOST:PORT,HOST:PORT, k8s://https://HOST:PORT and sc://HOST:PORT/;parameters."""
    kind, _, rest = url.partition("://")
    if kind not in DEFAULT_PORTS:
        return
    default = 80 if rest.startswith("http://") else DEFAULT_PORTS[kind]
    for part in rest.partition("://")[2].split(",") if rest.startswith("http") else rest.split(","):
        try:
            split = urlsplit(f"//{part}")
            host, port = split.hostname, split.port
        except ValueError:
            host = port = None
        if host is None:
            raise PipelineError(f"Not a valid master: {url!r} (example: spark://HOST:7077).")
        yield host, port or default


def _require_answer(sentence: str, addresses: list[tuple[str, int]]) -> None:
    problem: OSError | None = None
    for address in addresses:
        try:
            socket.create_connection(address, CONNECT_SECONDS).close()
        except OSError as error:
            problem = error
        else:
            return
    raise PipelineError(f"{sentence}: {problem}. Check the address, and that the cluster is running.")


def _require_yarn() -> None:
    folder = os.environ.get("YARN_CONF_DIR") or os.environ.get("HADOOP_CONF_DIR")
    if not folder:
        raise PipelineError(
            "The master is yarn, but neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set: "
            "set one to the folder of yarn-site.xml and core-site.xml of the cluster."
        )
    site = Path(folder) / "yarn-site.xml"
    found = _hadoop_settings(site) if site.is_file() else {}
    address = next((found[name] for name in _YARN_ADDRESSES if found.get(name)), None)
    if address is None or "${" in address:
        return  # several ResourceManagers, or Hadoop's default
    host, _, port = address.partition(":")
    _require_answer(f"No ResourceManager of YARN answers at {address} ({site})", [(host, int(port or 8032))])


def _hadoop_settings(path: Path) -> dict[str, str]:
    try:
        properties = ElementTree.parse(path).getroot().iter("property")
    except ElementTree.ParseError as error:
        raise PipelineError(f"{path} is not valid XML.", error) from None
    return {each.findtext("name", ""): each.findtext("value", "").strip() for each in properties}
