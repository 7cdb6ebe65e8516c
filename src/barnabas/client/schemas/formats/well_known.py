"""Protobuf's well-known types, from the installed library: files that every schema may import."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(1)
def well_known_files() -> dict[str, bytes]:
    """Serialized descriptors by the name of their file."""
    from google.protobuf import (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )

    modules = (
        *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2),
        *(struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2),
    )
    found = {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in modules}
    return {**found, **_common_types()}


def _common_types() -> dict[str, bytes]:
    """`google/type/*.proto`, which Confluent's registry knows too: dates, money, addresses."""
    from google.type import (
        calendar_period_pb2,
        color_pb2,
        date_pb2,
        datetime_pb2,
        dayofweek_pb2,
        decimal_pb2,
        expr_pb2,
        fraction_pb2,
        interval_pb2,
        latlng_pb2,
        money_pb2,
        month_pb2,
        phone_number_pb2,
        postal_address_pb2,
        quaternion_pb2,
        timeofday_pb2,
    )

    modules = (
        *(calendar_period_pb2, color_pb2, date_pb2, datetime_pb2, dayofweek_pb2, decimal_pb2, expr_pb2),
        *(fraction_pb2, interval_pb2, latlng_pb2, money_pb2, month_pb2, phone_number_pb2, postal_address_pb2),
        *(quaternion_pb2, timeofday_pb2),
    )
    return {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in modules}
