"""What is in a log dir is for the broker's account alone.

New files and folders are made so. Those of Apache Kafka, and of a Barnabas of before, become so at the first start: the
dir itself last, so that one look at it tells the next start that nothing is to be done. Only what looks like it belongs
to a broker is touched: the dir may be somebody's home.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

_FILES = (".lock", ".kafka_cleanshutdown", "meta.properties", "meta.properties.tmp")
_BEGINNINGS = (".barnabas-", "__barnabas_metadata")
_ENDS = ("-checkpoint", "-checkpoint.tmp", names.DELETE_FOLDER, names.STRAY_FOLDER, names.FUTURE_FOLDER)


def _is_a_brokers(name: str) -> bool:
    return (
        name in _FILES
        or name.startswith(_BEGINNINGS)
        or name.endswith(_ENDS)
        or names.partition_of_folder(name) is not None
    )


def make_private(fs: FileSystem, log_dirs: Iterable[str]) -> None:
    """Take the rights on log dirs from other accounts of the machine, if they have any."""
    for folder in log_dirs:
        _make_dir_private(fs, folder)


def _make_dir_private(fs: FileSystem, folder: str) -> None:
    try:
        if not fs.is_private(folder):
            for name in fs.list(folder):
                if _is_a_brokers(name):
                    fs.make_private(f"{folder}/{name}", tree=True)
            fs.make_private(folder)
            logger.info("%s and what is in it can be read by this account alone now", folder)
    except OSError as error:
        logger.warning("other accounts of this machine may be able to read %s: %s", folder, error)
