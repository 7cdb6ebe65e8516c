"""A search as a plain loop over records: the reference of columnar matching."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.client.opening import ConsumedRecord
from barnabas.filters import Filter
from barnabas.services.console.scanning.model import Search


def search_plainly(search: Search, records: Iterable[ConsumedRecord]) -> list[tuple[int, int]]:
    """(partition, offset) of matches, ordered by partition and offset."""
    where = Filter(search.where) if search.where else None
    return [
        (record.partition, record.offset)
        for record in records
        if _matches(search, record) and (where is None or where.matches(record))
    ]


def _matches(search: Search, record: ConsumedRecord) -> bool:
    if search.partitions and record.partition not in search.partitions:
        return False
    if search.first_offset is not None and record.offset < search.first_offset:
        return False
    if search.until_offset is not None and record.offset >= search.until_offset:
        return False
    if search.since is not None and record.timestamp < search.since:
        return False
    if search.until is not None and record.timestamp >= search.until:
        return False
    return _has_key(search, record) and _has_header(search, record) and _has_text(search, record)


def _has_key(search: Search, record: ConsumedRecord) -> bool:
    return not search.key or (record.key is not None and _like(search.key, record.key))


def _has_header(search: Search, record: ConsumedRecord) -> bool:
    if not search.header:
        return True
    name, equals, value = search.header.partition("=")
    return any(
        _like(name, key.encode("utf-8", "surrogateescape"))
        and (not equals or (settings is not None and _like(value, settings)))
        for key, settings in record.headers
    )


def _has_text(search: Search, record: ConsumedRecord) -> bool:
    if not search.find:
        return True
    pattern = search.find.encode() if search.regex else re.escape(search.find.encode())
    compiled = re.compile(pattern, re.IGNORECASE if search.ignore_case else 0)
    return any(part is not None and compiled.search(part) is not None for part in (record.key, record.value))


def _like(wanted: str, value: bytes) -> bool:
    pattern = b".*".join(re.escape(part.encode()) for part in wanted.split("*"))
    return re.fullmatch(pattern, value, re.DOTALL) is not None
