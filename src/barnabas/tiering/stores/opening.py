"""Open an object store from `barnabas.remote.storage.url` and `rsm.config.*`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from barnabas.config.setting import ConfigError
from barnabas.tiering.stores.folder_store import FolderStore
from barnabas.tiering.stores.store import BrowsableStore

URL = "barnabas.remote.storage.url"
FORMS = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER"
MISSING = "{url}={scheme}://... needs the package obstore: pip install 'barnabas[tiering]'"
BUCKETS = ("s3", "gs", "az")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PREFIX = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")


def open_store(url: str, options: Mapping[str, str]) -> BrowsableStore:
    """Open a store without contacting it. `options`: the settings `rsm.config.*` without this prefix."""
    parts = _split(url)
    if parts.scheme == "file":
        return _folder(parts)
    if parts.scheme in BUCKETS:
        return _bucket(parts, options)
    raise ConfigError(f"{URL} begins with none of the known schemes; write {FORMS}.")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_credentials = "@" in parts.netloc
    except ValueError:
        raise ConfigError(f"{URL} is not a URL; write {FORMS}.") from None
    if has_credentials:
        raise ConfigError(f"{URL} must not contain credentials: set rsm.config.* or the environment instead.")
    if parts.query or parts.fragment:
        raise ConfigError(f"{URL} must not contain ? or #: options are rsm.config.* .")
    return parts


def _folder(parts: SplitResult) -> BrowsableStore:
    folder = os.path.normpath(unquote(parts.path)) if parts.path else ""
    if parts.netloc not in ("", "localhost") or not folder.startswith("/") or folder.strip("/") == "":
        raise ConfigError(
            f"{URL}={parts.geturl()} names no folder: write file:///FOLDER, with three slashes."
        )
    if not os.path.isdir(folder):
        raise ConfigError(f"{URL}: the folder {folder} is not there. Create it, or mount its disk.")
    return FolderStore(folder)


def _bucket(parts: SplitResult, options: Mapping[str, str]) -> BrowsableStore:
    prefix = parts.path.strip("/")
    if not _NAME.fullmatch(parts.netloc):
        raise ConfigError(f"{URL}={parts.geturl()} names no bucket: write {FORMS}.")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"{URL}={parts.geturl()}: the prefix may have letters, digits, and . _ = - between its slashes."
        )
    try:
        from barnabas.tiering.stores.obstore_store import BucketUrl, ObstoreStore, UnknownOptionError
    except ImportError as error:
        raise ConfigError(MISSING.format(url=URL, scheme=parts.scheme)) from error
    try:
        return ObstoreStore(BucketUrl(parts.scheme, parts.netloc, prefix), options)
    except UnknownOptionError as error:
        raise ConfigError(
            f"rsm.config.* does not suit {parts.scheme}: {error} See docs/tiering.md for the options."
        ) from None
