"""The container image, built without a daemon: Debian's Python by mmdebstrap, Barnabas in /opt, one OCI layout as tar.

    python -m tools.packages.container [--output dist]

`podman load`, `docker load`, `skopeo copy oci-archive:FILE` and `umoci` read the file: it is an OCI layout with the
`manifest.json` of `docker save`. The image has no package manager; /bin/sh is busybox.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from barnabas.common.version import __version__
from tools.packages.environment import PREFIX, PYTHON, make_environment, newest_wheel, source_date

SUITE = "trixie"
PACKAGES = (f"python{PYTHON}", "libstdc++6", "ca-certificates", "busybox-static", "base-files")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
COMPILE = "-m compileall -q --invalidation-mode unchecked-hash"
NAME = f"barnabas:{__version__}"

USER = 1000  # as in Kafka's images, so that existing volumes stay readable
DATA = "/var/lib/kafka/data"
FILES = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nbarnabas:x:{USER}:{USER}:Barnabas:{DATA}:/bin/sh\n",
    "etc/group": f"root:x:0:\nbarnabas:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# Not needed at run time; copyright files of Debian's packages stay.
LEFT_OUT = (
    "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/", "usr/share/bug/",
    "usr/share/doc-base/", "usr/share/perl5/", "var/lib/apt/", "var/lib/dpkg/", "var/cache/", "var/log/", "etc/apt/",
    "dev/",
)  # fmt: skip

CONFIG = {
    "User": f"{USER}:{USER}",
    "ExposedPorts": {"9092/tcp": {}},
    "Env": [f"PATH=/{PREFIX}/bin:/usr/bin:/bin", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"],
    "Entrypoint": [f"/{PREFIX}/bin/barnabas"],
    "Cmd": ["serve", "--environment"],
    "Volumes": {DATA: {}},
    "WorkingDir": DATA,
    "StopSignal": "SIGTERM",
    # Of Docker's images; runtimes that know only OCI ignore it. Times in nanoseconds.
    "Healthcheck": {
        "Test": ["CMD", f"/{PREFIX}/bin/python", "-m", "barnabas.cli.container"],
        "Interval": 30_000_000_000,
        "Timeout": 10_000_000_000,
        "StartPeriod": 60_000_000_000,
    },
    "Labels": {"org.opencontainers.image.title": "barnabas", "org.opencontainers.image.version": __version__,
               "org.opencontainers.image.licenses": "Apache-2.0"},
}  # fmt: skip


def build(output: Path, wheel: Path) -> Path:
    """Write the image as a tar file; return its path."""
    seconds = source_date()
    with tempfile.TemporaryDirectory() as folder:
        system, environment = Path(folder, "root.tar"), Path(folder, "environment")
        make_environment(environment, wheel, "container")
        _bootstrap(system, environment)
        layers = [_layer(system, seconds, is_application=False), _layer(system, seconds, is_application=True)]
    path = output / f"barnabas-{__version__}-container.tar"
    with tarfile.open(path, "w") as archive:
        for name, data in _image(layers, seconds).items():
            archive.addfile(*_file(name, data, seconds))
    return path


def _bootstrap(target: Path, environment: Path) -> None:
    """Unpack Debian's packages and the environment, and compile its bytecode with the Python of the image."""
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--format=tar", "--architectures=amd64"]
    command += [f"--keyring={KEYRING}", f"--include={','.join(PACKAGES)}"]
    hooks = (
        f"copy-in {environment}/opt /",
        f'chroot "$1" /usr/bin/python{PYTHON} {COMPILE} /{PREFIX}/lib /usr/lib/python{PYTHON}',
        'cat "$1"/usr/share/ca-certificates/mozilla/*.crt > "$1"/etc/ssl/certs/ca-certificates.crt',
        'ln -sf busybox "$1"/usr/bin/sh',
    )
    command += [f"--extract-hook={hook}" for hook in hooks]
    # Without a repository, mmdebstrap uses the suite's own mirror, updates and security updates included.
    subprocess.run([*command, SUITE, str(target)], check=True)


# -- Layers and the image ------------------------------------------------------------------------------


def _layer(source: Path, seconds: int, *, is_application: bool) -> bytes:
    """A part of the root file system as tar: Barnabas, or everything else."""
    buffer = io.BytesIO()
    with (
        tarfile.open(source) as archive,
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as layer,
    ):
        for member in sorted(archive, key=lambda each: each.name):
            member.name = member.name.removeprefix("./")
            if _is_wanted(member.name) and is_application == member.name.startswith(PREFIX):
                member.mtime, member.pax_headers = seconds, {}
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                layer.addfile(member, archive.extractfile(member) if member.isreg() else None)
        if not is_application:
            for each in _own_files(seconds):
                layer.addfile(*each)
    return buffer.getvalue()


def _is_wanted(name: str) -> bool:
    is_documentation = name.startswith("usr/share/doc/") and not name.endswith("/copyright")
    return bool(name) and name not in FILES and not is_documentation and not name.startswith(LEFT_OUT)


def _own_files(seconds: int) -> Iterator[tuple[tarfile.TarInfo, io.BytesIO | None]]:
    for name, text in FILES.items():
        yield _file(name, text.encode(), seconds)
    for number, name in enumerate(("var/lib/kafka", "var/lib/kafka/data")):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mtime, folder.mode = tarfile.DIRTYPE, seconds, 0o755
        folder.uid = folder.gid = USER * number
        yield folder, None


def _file(name: str, data: bytes, seconds: int) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), seconds, 0o644
    return info, io.BytesIO(data)


def _image(layers: list[bytes], seconds: int) -> dict[str, bytes]:
    """The files of an OCI layout, with the manifest of `docker save` in addition."""
    blobs: dict[str, bytes] = {}

    def add(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(data),
        }

    packed = [add(gzip.compress(layer, 9, mtime=0), "layer.v1.tar+gzip") for layer in layers]
    created = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": CONFIG,
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers],
        },
        "history": [
            {"created": created, "created_by": text}
            for text in (f"Debian {SUITE}", f"barnabas {__version__}")
        ],
    }
    config = add(_json(document), "config.v1+json")
    manifest = add(
        _json(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": config,
                "layers": packed,
            }
        ),
        "manifest.v1+json",
    )
    manifest["annotations"] = {"org.opencontainers.image.ref.name": __version__}
    docker = {"Config": _blob_of(config), "RepoTags": [NAME], "Layers": [_blob_of(each) for each in packed]}
    return {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [manifest]}),
        "manifest.json": _json([docker]),
        **blobs,
    }


def _blob_of(descriptor: dict[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("dist"))
    output = parser.parse_args().output
    path = build(output, newest_wheel(output))
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
