"""Errors of the Python client. All are ClientErrors; an error code of a broker is in `code`, if there is one."""

from __future__ import annotations

from barnabas.client.errors import ClientError, is_retriable
from barnabas.client.producing.transaction_manager import TransactionError
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition


class DeliveryError(ClientError):
    """A record was not delivered. `is_retriable`: sending it again may succeed later."""

    def __init__(self, tp: TopicPartition, cause: Exception) -> None:
        super().__init__(f"{tp} did not take the record: {cause}")
        self.topic, self.partition = tp
        self.code = cause.code if isinstance(cause, KafkaError) else None
        self.is_retriable = is_retriable(cause)

    @classmethod
    def of(cls, tp: TopicPartition, cause: Exception) -> Exception:
        """The error for the caller; errors of a transaction concern more than one record."""
        return cause if isinstance(cause, TransactionError) else cls(tp, cause)


class SerializationError(ClientError):
    """A key or value could not be serialized or deserialized."""


class NoOffsetError(ClientError):
    """A partition has no committed offset, and auto_offset_reset is "none"."""


class CommitFailedError(ClientError):
    """The group has given the partitions to another member: the records will be read again."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class AcknowledgeError(ClientError):
    """A broker rejected acknowledgements of a share consumer, for example because the lock has expired."""
