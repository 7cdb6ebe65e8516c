"""Level and service of log lines that are JSON objects, as loggers and collectors write them.

Names are those of pino and Bunyan (`level` as a number), zap, slog, logrus, log4j2, Elastic Common Schema
(`log.level`, `service.name`), Python's `levelname`, Serilog (`@l`), OpenTelemetry (`SeverityText`) and Google Cloud
(`severity`).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

MAX_LINE = 256 * 1024
"""Longer lines are not decoded."""
_OBJECT = b"{"


class _Line(msgspec.Struct):
    """Fields that name a level or a service; of any type, because any client may have written them."""

    level: Any = None
    severity: Any = None
    levelname: Any = None
    lvl: Any = None
    loglevel: Any = None
    log_level: Any = msgspec.field(default=None, name="log.level")
    log: Any = None
    severity_text: Any = msgspec.field(default=None, name="SeverityText")
    camel_severity: Any = msgspec.field(default=None, name="severityText")
    serilog: Any = msgspec.field(default=None, name="@l")
    service_name: Any = msgspec.field(default=None, name="service.name")
    service: Any = None
    app: Any = None
    application: Any = None

    def found_level(self) -> str | None:
        named = (self.level, self.log_level, _inner(self.log, "level"), self.severity, self.levelname)
        more = (self.severity_text, self.camel_severity, self.lvl, self.loglevel, self.serilog)
        return next((text for each in (*named, *more) if (text := _level(each))), None)

    def found_service(self) -> str | None:
        named = (self.service_name, _inner(self.service, "name"), self.service, self.app, self.application)
        return next((each for each in named if isinstance(each, str) and each), None)


_lines = msgspec.json.Decoder(_Line)
_NUMBERS = ((60, "FATAL"), (50, "ERROR"), (40, "WARN"), (30, "INFO"), (20, "DEBUG"), (10, "TRACE"))
"""Levels of pino and Bunyan."""


def facts_in(values: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Levels and services of the lines that are JSON objects, null elsewhere; None if no line is one."""
    is_object = pc.starts_with(values, _OBJECT)
    if not pc.any(is_object).as_py():
        return None
    lines = [_decoded(value) if there else None for value, there in _pairs(values, is_object)]
    levels = [None if line is None else line.found_level() for line in lines]
    services = [None if line is None else line.found_service() for line in lines]
    return _column(levels), _column(services)


def _pairs(values: pa.Array, is_object: pa.Array) -> zip[tuple[bytes | None, bool | None]]:
    return zip(pc.if_else(is_object, values, None).to_pylist(), is_object.to_pylist(), strict=True)


def _decoded(value: bytes | None) -> _Line | None:
    if value is None or len(value) > MAX_LINE:
        return None
    try:
        return _lines.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _inner(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _level(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return next((name for minimum_value, name in _NUMBERS if value >= minimum_value), None)
    return None


def _column(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string()).view(pa.binary())
