"""The broker's loggers under Kafka's level names, for the BROKER_LOGGER resource (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from barnabas.controller.configs import ConfigOperation, Operation
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.configuration.config_resources import invalid_request

ROOT = "root"

# Python has no level below DEBUG; 5 is what others use who need one.
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def levels() -> dict[str, str]:
    """The level in force of every logger of ours, and of the root of all."""
    ours = [name for name in logging.root.manager.loggerDict if _is_ours(name)]
    return {name: _level_name(_logger(name)) for name in (ROOT, *sorted(ours))}


def check(name: str, level: str | None, known: Container[str]) -> None:
    """Raises KafkaError unless this logger can be given this level; None takes its own level away."""
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    if level is not None and level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )


def set_level(name: str, level: str | None) -> None:
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def change(operations: Iterable[ConfigOperation], validate_only: bool) -> KafkaError | None:
    """All levels are set, or none."""
    try:
        known = levels()
        wanted = [(operation.name, _new_level(operation)) for operation in operations]
        for name, level in wanted:
            check(name, level, known)
    except KafkaError as error:
        return error
    if not validate_only:
        for name, level in wanted:
            set_level(name, level)
    return None


def _new_level(operation: ConfigOperation) -> str | None:
    if operation.operation == Operation.DELETE:
        return None
    if operation.operation != Operation.SET:
        name = "APPEND" if operation.operation == Operation.APPEND else "SUBTRACT"
        raise invalid_request(f"{name} operation is not allowed for the BROKER_LOGGER resource")
    if operation.value is None:
        raise invalid_request(f"Null value not supported for : {operation.name}")
    return operation.value


def _is_ours(name: str) -> bool:
    return name == "barnabas" or name.startswith("barnabas.")


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return next((name for name, level in reversed(LEVELS.items()) if level <= effective), "TRACE")
