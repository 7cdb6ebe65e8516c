"""The container image: built without a daemon, started by runc with a read-only root and no privileges."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas import __version__
from tests.packaging.installed import READY, SECONDS, build, run
from tests.support.compose import APACHE, CONFLUENT
from tests.support.programs import find
from tools.packages import container
from tools.packages.environment import PREFIX

pytestmark = pytest.mark.timeout(1800)  # a build takes minutes on a busy machine

MAX_COMPRESSED = 120e6
HEALTH = (f"/{PREFIX}/bin/python", "-m", "barnabas.cli.container")
BARNABAS = f"/{PREFIX}/bin/barnabas"


def test_the_image_is_an_oci_layout_and_an_archive_of_docker() -> None:
    files = container._image([b"system", b"application"], 1_700_000_000)
    (manifest,) = json.loads(files["index.json"])["manifests"]
    image = json.loads(files["blobs/" + manifest["digest"].replace(":", "/")])
    config = json.loads(files["blobs/" + image["config"]["digest"].replace(":", "/")])
    assert len(image["layers"]) == len(config["rootfs"]["diff_ids"]) == 2
    assert config["config"]["User"] == "1000:1000"
    (docker,) = json.loads(files["manifest.json"])
    assert {docker["Config"], *docker["Layers"]} < set(files)


# -- Built and started: `make packages` ----------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    find("mmdebstrap", "umoci", "runc", "ip")
    if os.geteuid() != 0:
        pytest.skip("runc needs root here: sudo make packages")
    folder = tmp_path_factory.mktemp("image")
    if settings := os.environ.get("BARNABAS_IMAGE"):
        return Path(settings)
    (wheel,) = build(folder, "wheel")
    return container.build(folder, wheel)


@pytest.fixture(scope="module")
def bundle(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OCI bundle that umoci creates: root file system and configuration for runc."""
    folder = tmp_path_factory.mktemp("bundle")
    with tarfile.open(image) as archive:
        archive.extractall(folder / "oci", filter="data")
    run("umoci", "unpack", "--image", f"{folder / 'oci'}:{__version__}", folder / "bundle")
    return folder / "bundle"


@pytest.mark.extended
def test_the_image_is_small(image: Path) -> None:
    assert image.stat().st_size <= MAX_COMPRESSED


@pytest.mark.extended
@pytest.mark.parametrize("variables", [APACHE, CONFLUENT, {}], ids=["apache", "confluent", "no settings"])
def test_a_compose_file_works_with_another_image(
    bundle: Path, variables: dict[str, str], volume: Path
) -> None:
    with running(bundle, variables, volume) as (name, lines):
        port = "9092" if not variables else "19092" if variables is APACHE else "29092"
        address = ("--bootstrap-server", f"broker:{port}" if variables else "localhost:9092")
        execute(name, BARNABAS, "produce", "orders", *address, stdin="hello\n")
        read = execute(name, BARNABAS, "consume", "orders", "--from", "beginning", "--exit-at-end", *address)
        assert read == "hello\n"
        execute(name, *HEALTH)
        status = execute(name, BARNABAS, "cluster", "status", "-o", "json", *address)
        if variables:
            assert json.loads(status)["cluster_id"] == variables["CLUSTER_ID"]
            assert any(line.startswith("Warning: process.roles") for line in lines)


@pytest.mark.extended
def test_sigterm_leaves_a_clean_volume_and_the_root_is_read_only(bundle: Path, volume: Path) -> None:
    with running(bundle, {"KAFKA_LOG_DIRS": container.DATA}, volume) as (name, _):
        execute(name, BARNABAS, "produce", "orders", stdin="hello\n")
        with pytest.raises(AssertionError):
            execute(name, "/bin/sh", "-c", "echo x > /opt/file")
        with pytest.raises(AssertionError):
            execute(name, *HEALTH, env={"KAFKA_BARNABAS_METRICS_LISTEN": "127.0.0.1:1"})
    assert (volume / ".kafka_cleanshutdown").exists()
    assert {path.stat().st_uid for path in volume.rglob("*")} == {container.USER}


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Mounted at the image's data folder. Docker gives a new volume the owner of that folder, umoci does not."""
    folder = tmp_path / "volume"
    folder.mkdir()
    os.chown(folder, container.USER, container.USER)
    return folder


@contextmanager
def running(bundle: Path, variables: Mapping[str, str], volume: Path) -> Iterator[tuple[str, list[str]]]:
    """A container with a read-only root in a separate network; its name and output. SIGTERM ends it."""
    name = f"barnabas-test-{os.getpid()}"
    (bundle / "hosts").write_text("127.0.0.1 localhost broker\n")
    if not (bundle / "config.orig.json").exists():
        (bundle / "config.json").rename(bundle / "config.orig.json")
    config = json.loads((bundle / "config.orig.json").read_text())
    (bundle / "config.json").write_text(json.dumps(_restricted(config, name, bundle, variables, volume)))
    output = bundle / "output"
    run("ip", "netns", "add", name)
    run("ip", "-netns", name, "link", "set", "lo", "up")
    started = time.monotonic()
    with output.open("w") as file:
        command = ["runc", "run", "--bundle", str(bundle), name]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        while READY not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() - started < SECONDS, output.read_text()
            time.sleep(0.05)
        yield name, output.read_text().splitlines()
        run("runc", "kill", name, "TERM")
        assert process.wait(SECONDS) == 0, output.read_text()
    finally:
        subprocess.run(["runc", "delete", "--force", name], capture_output=True, check=False)
        process.wait(SECONDS)
        run("ip", "netns", "delete", name)


def _restricted(
    config: dict[str, Any], name: str, bundle: Path, variables: Mapping[str, str], volume: Path
) -> dict[str, Any]:
    """umoci's configuration with a read-only root, without capabilities, in a separate network."""
    config["root"]["readonly"] = True
    config["hostname"] = "broker"
    process = config["process"]
    process["terminal"] = False
    process["env"] += [f"{name}={value}" for name, value in variables.items()]
    process["capabilities"] = {kind: [] for kind in process["capabilities"]}
    process.pop("rlimits")
    left_out = ("/sys", "/sys/fs/cgroup", container.DATA)  # the first two need a cgroup
    config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] not in left_out]
    config["mounts"] += [
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]},
        {"destination": "/etc/hosts", "source": str(bundle / "hosts"), "options": ["bind", "ro"]},
        {"destination": container.DATA, "source": str(volume), "options": ["bind", "rw"]},
    ]
    for namespace in config["linux"]["namespaces"]:
        if namespace["type"] == "network":
            namespace["path"] = f"/run/netns/{name}"
    config["linux"]["resources"] = {}
    return config


def execute(name: str, *command: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run a command in the container; its standard output."""
    options = [text for key, value in (env or {}).items() for text in ("--env", f"{key}={value}")]
    return run("runc", "exec", *options, name, *command, stdin=stdin)
