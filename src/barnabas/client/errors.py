"""Client errors: connections, timeouts, security. Error codes in responses are raised as KafkaError."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode, KafkaError


class ClientError(Exception):
    """The request got no answer. Whether it was carried out is unknown unless the subclass says so."""


class CannotConnectError(ClientError):
    """None of the addresses answered, so nothing was carried out."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address
        self.reason = reason


class ConnectionLostError(ClientError):
    """The connection ended with requests in flight."""


class BufferFullError(ClientError):
    """A producer's buffer stayed full. The record was not accepted."""


class RequestTimeoutError(ClientError):
    """No answer in time. The connection is closed, because its next answer would be the late one."""


class UnsupportedApiError(ClientError):
    """The broker supports no common version of the request; nothing was sent."""


class BrokenResponseError(ClientError):
    """Malformed response; the connection is closed."""


class SecurityError(ClientError):
    """TLS or authentication failed. Nothing was carried out; not retriable."""


class TlsError(SecurityError):
    """The TLS handshake failed."""


class AuthenticationError(SecurityError):
    """SASL failed: the broker rejected the credentials or could not prove its identity."""


# Retriable after a metadata refresh.
STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_CONTROLLER,
    }
)

# The same request may succeed a little later.
RETRIABLE = STALE_METADATA | {
    ErrorCode.CORRUPT_MESSAGE,  # damaged on its way to the broker
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}


# Not retriable.
_FINAL = (SecurityError, UnsupportedApiError, BrokenResponseError)


def is_retriable(error: Exception) -> bool:
    """True if the same request may succeed later."""
    if isinstance(error, KafkaError):
        return error.code in RETRIABLE
    return isinstance(error, ClientError) and not isinstance(error, _FINAL)


def may_arrive_late(error: Exception) -> bool:
    """True if the request may still be processed: it was sent and got no response."""
    return isinstance(error, ConnectionLostError | RequestTimeoutError | BrokenResponseError)


def error_code(number: int) -> ErrorCode:
    """The code as an enum; codes of a newer Kafka become UNKNOWN_SERVER_ERROR instead of an exception."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
