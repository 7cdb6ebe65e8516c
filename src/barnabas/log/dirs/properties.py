"""`meta.properties`, the identity of a log dir; the clean shutdown marker, the boot id, and file permissions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import Uuid, new_uuid, uuid_from_text, uuid_to_text
from barnabas.log import names
from barnabas.log.checkpoints import name_value_pairs, read_if_exists

# -- Log dirs are accessible only to the account of the broker -----------------------------------------

logger = safe_logger(__name__)

_FILES = (".lock", ".kafka_cleanshutdown", "meta.properties", "meta.properties.tmp")
_PREFIXES = (".barnabas-", "__barnabas_metadata")
_SUFFIXES = ("-checkpoint", "-checkpoint.tmp", names.DELETE_FOLDER, names.STRAY_FOLDER, names.FUTURE_FOLDER)


def _is_broker_file(name: str) -> bool:
    return (
        name in _FILES
        or name.startswith(_PREFIXES)
        or name.endswith(_SUFFIXES)
        or names.partition_of_folder(name) is not None
    )


def make_private(fs: FileSystem, log_dirs: Iterable[str]) -> None:
    """Remove the permissions of other accounts on log dirs."""
    for folder in log_dirs:
        _make_dir_private(fs, folder)


def _make_dir_private(fs: FileSystem, folder: str) -> None:
    try:
        if not fs.is_private(folder):
            for name in fs.list(folder):
                if _is_broker_file(name):
                    fs.make_private(f"{folder}/{name}", tree=True)
            fs.make_private(folder)
            logger.info("removed the permissions of other accounts on %s and its contents", folder)
    except OSError as error:
        logger.warning("other accounts on this host may be able to read %s: %s", folder, error)


META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
BOOT_ID = ".barnabas-boot-id"

_META_VERSION = "1"
_CLEAN_SHUTDOWN_VERSION = 0
_KERNEL_BOOT_ID = Path(
    "/proc/sys/kernel/random/boot_id"
)  # Linux; elsewhere an unclean stop counts as a crash


class MetaPropertiesError(ValueError):
    """The file is invalid; the text has the reason."""


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: Uuid

    def encode(self) -> bytes:
        lines = (
            "#",
            f"cluster.id={self.cluster_id}",
            f"directory.id={uuid_to_text(self.directory_id)}",
            f"node.id={self.node_id}",
            f"version={_META_VERSION}",
        )
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def decode(cls, data: bytes) -> MetaProperties:
        fields = dict(name_value_pairs(data.decode("utf-8", "replace"), "="))
        if fields.get("version") != _META_VERSION:
            raise MetaPropertiesError(
                f"unsupported version {fields.get('version')}; expected {_META_VERSION}"
            )
        try:
            directory_id = uuid_from_text(fields["directory.id"])
            return cls(fields["cluster.id"], int(fields["node.id"]), directory_id)
        except KeyError as missing:
            raise MetaPropertiesError(f"{missing} is missing") from None
        except ValueError as error:
            raise MetaPropertiesError(str(error)) from None


def read_meta(fs: FileSystem, folder: str) -> MetaProperties | None:
    data = read_if_exists(fs, f"{folder}/{META_PROPERTIES}")
    return None if data is None else MetaProperties.decode(data)


def read_identity(fs: FileSystem, folder: str) -> MetaProperties | None:
    """Like `read_meta`, but raise KafkaError if the file is invalid."""
    try:
        return read_meta(fs, folder)
    except MetaPropertiesError as error:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{folder}/{META_PROPERTIES} is invalid: {error}"
        ) from error


def claim(fs: FileSystem, folder: str, cluster_id: str, node_id: int) -> MetaProperties:
    """Write the identity of a broker into a new log dir; raise KafkaError if it belongs to another one."""
    meta = read_identity(fs, folder)
    if meta is None:
        meta = MetaProperties(cluster_id, node_id, new_uuid())
        write_meta(fs, folder, meta)
    elif (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"{folder} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node "
            f"{node_id} of cluster {cluster_id}: use that node.id, or another folder",
        )
    return meta


def write_meta(fs: FileSystem, folder: str, meta: MetaProperties) -> None:
    fs.write_atomic(f"{folder}/{META_PROPERTIES}", meta.encode())


def write_clean_shutdown(fs: FileSystem, folder: str, broker_epoch: int) -> None:
    """Mark the log dir as complete and synced. The controller compares the broker epoch (KIP-966)."""
    marker = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
    fs.write_atomic(f"{folder}/{CLEAN_SHUTDOWN}", json.dumps(marker, separators=(",", ":")).encode())


def read_clean_shutdown(fs: FileSystem, folder: str) -> int | None:
    """Broker epoch of the clean shutdown (-1 if not recorded); None if the shutdown was unclean."""
    data = read_if_exists(fs, f"{folder}/{CLEAN_SHUTDOWN}")
    if data is None:
        return None
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1  # Kafka before 3.7 left the file empty


def remove_clean_shutdown(fs: FileSystem, folder: str) -> None:
    """Remove the marker: from now on a shutdown is unclean unless the marker is written again."""
    if fs.exists(f"{folder}/{CLEAN_SHUTDOWN}"):
        fs.remove(f"{folder}/{CLEAN_SHUTDOWN}")
        fs.sync_folder(folder)


def kernel_boot_id() -> str | None:
    """Id that changes at every boot: distinguishes a killed process from a crash that lost the page cache."""
    try:
        return _KERNEL_BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def read_boot_id(fs: FileSystem, folder: str) -> str | None:
    data = read_if_exists(fs, f"{folder}/{BOOT_ID}")
    return data.decode("ascii", "replace").strip() if data else None


def write_boot_id(fs: FileSystem, folder: str, boot_id: str) -> None:
    fs.write_atomic(f"{folder}/{BOOT_ID}", f"{boot_id}\n".encode())
