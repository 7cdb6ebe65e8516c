"""Client metrics pushed to the broker (KIP-714)."""

from __future__ import annotations

from barnabas.protocol.schema import Message, array, boolean, byte_string, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+"):
    """Asks which metrics a client should push, and how often."""

    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    """Carries metrics in OpenTelemetry format."""

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = byte_string()


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
