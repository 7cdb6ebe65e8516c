"""Request errors: an HTTP status, a message for the user, and the invalid field."""

from __future__ import annotations

from barnabas.client import ClientError
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.wire import EncodeError


class ConsoleError(Exception):
    status = 500

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class BadInputError(ConsoleError):
    status = 400


class UnauthorizedError(ConsoleError):
    """Not logged in. Pages redirect to the login, the API answers 401."""

    status = 401


class ElsewhereError(ConsoleError):
    """Redirects the browser, for example to an identity provider."""

    status = 303

    def __init__(self, location: str) -> None:
        super().__init__(f"See {location}")
        self.location = location


class TooManyError(ConsoleError):
    """Too many failed logins."""

    status = 429


class RefusedError(ConsoleError):
    status = 403


class ResourceNotFoundError(ConsoleError):
    status = 404


class WrongMethodError(ConsoleError):
    status = 405


class StaleError(ConsoleError):
    """The state shown in the form has changed since; the message says how."""

    status = 409


class RequestTooLargeError(ConsoleError):
    status = 413


class BusyError(ConsoleError):
    status = 503


class ClusterError(ConsoleError):
    """The cluster rejected a request or is unreachable."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_NOT_THERE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
_BAD_INPUT = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    }
)


def explain(error: Exception) -> ConsoleError:
    """Map an error of the Kafka client to a response. Anything else is a bug and is raised again.

    jinja2's TemplateNotFound is both an OSError and a LookupError, hence the exclusion of LookupError.
    """
    if isinstance(error, ConsoleError):
        return error
    if isinstance(error, EncodeError):
        return BadInputError(f"This does not fit into a request to the cluster: {error}")
    if isinstance(error, KafkaError):
        return ClusterError(_status(error), str(error))
    if isinstance(error, ClientError | TimeoutError | OSError) and not isinstance(error, LookupError):
        text = str(error) or "it did not answer in time"
        return ClusterError(502, f"The cluster cannot be asked: {text}")
    raise error


def _status(error: KafkaError) -> int:
    if error.code in _NOT_THERE:
        return 404
    if error.code in _BAD_INPUT:
        return 400
    return 403 if error.code.name.endswith("AUTHORIZATION_FAILED") else 502
