"""Public path of Kafka's error codes; they are defined in `barnabas.common.errors`."""

from barnabas.common.errors import ErrorCode, KafkaError

__all__ = ["ErrorCode", "KafkaError"]
