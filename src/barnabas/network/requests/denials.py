"""Responses to requests that are denied, as Kafka builds them.

An error response has the shape of the request: an element with the same name or number for each topic, partition or
resource of the request, and the error in every error field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.protocol.api import response_class
from barnabas.protocol.schema import Field, Message, Struct
from barnabas.security.authz import DENIAL_TEXTS

S = TypeVar("S", bound=Struct)

_ERROR_FIELDS = frozenset({"error_code", "partition_error_code"})


def error_response(request: Message, error: ErrorCode, version: int) -> Message:
    """Build the response to a request in which everything failed with one error."""
    response = response_class(request.api_key)()
    _fill(response, request, error, version)
    return response


def refusal(
    message: Message, version: int, error: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
) -> Message:
    """Build an error response as Kafka does: at the top if the response has an error there, else in each
    element.
    """
    response = response_class(message.api_key)()
    if any(field.name == "error_code" and field.present_in(version) for field in response.FIELDS):
        response.error_code = error  # type: ignore[attr-defined]
        return response
    return error_response(message, error, version)


def with_details(struct: S, values: Mapping[str, object], version: int) -> S:
    """Set fields of a denied response where it has them, and its error message."""
    for field in struct.FIELDS:
        if field.name in values:
            setattr(struct, field.name, values[field.name])
        elif field.name == "error_message" and field.present_in(version):
            text = DENIAL_TEXTS.get(getattr(struct, "error_code", ErrorCode.NONE))
            setattr(struct, field.name, text or getattr(struct, field.name))
        elif field.wire == "array":
            for item in getattr(struct, field.name) or ():
                if isinstance(item, Struct):
                    with_details(item, values, version)
    return struct


def without_arrays(struct: Struct) -> None:
    """Omit everything inside a denied element."""
    for field in struct.FIELDS:
        if field.wire == "array":
            setattr(struct, field.name, [])


# -- the shape of the request ----------------------------------------------------------------------------


def _fill(target: Struct, source: Struct, error: ErrorCode, version: int) -> None:
    for field in target.FIELDS:
        if not field.present_in(version):
            continue
        if field.name in _ERROR_FIELDS:
            setattr(target, field.name, int(error))
        elif field.wire == "array" and isinstance(field.element, type):
            setattr(target, field.name, _elements(field, source, error, version))
        elif (twin := _twin(field, source)) is not None:
            setattr(target, field.name, getattr(source, twin.name))


def _elements(field: Field, source: Struct, error: ErrorCode, version: int) -> list[Struct]:
    """Make one element for each element of the corresponding array in the request."""
    if not _carries_errors(field.element):
        return []  # endpoints, brokers, configs, aborted transactions
    return [_element(field, item, error, version) for item in _items(source, version)]


def _carries_errors(cls: type[Struct]) -> bool:
    return any(
        field.name in _ERROR_FIELDS
        or (field.wire == "array" and isinstance(field.element, type) and _carries_errors(field.element))
        for field in cls.FIELDS
    )


def _items(source: Struct, version: int) -> list[object]:
    arrays = [field for field in source.FIELDS if field.wire == "array" and field.present_in(version)]
    return list(getattr(source, arrays[0].name) or ()) if arrays else []


def _element(field: Field, item: object, error: ErrorCode, version: int) -> Struct:
    element: Struct = field.element()
    if isinstance(item, Struct):
        _fill(element, item, error, version)
    else:  # an array of names, group ids or partition numbers
        for inner in element.FIELDS:
            if inner.name in _ERROR_FIELDS:
                setattr(element, inner.name, int(error))
        setattr(element, element.FIELDS[_first_naming_field(element)].name, item)
    return element


def _first_naming_field(element: Struct) -> int:
    return next(
        index
        for index, inner in enumerate(element.FIELDS)
        if inner.name not in _ERROR_FIELDS and inner.name != "error_message"
    )


# Fields with different names in a request and its response.
_SAME = ({"index", "partition", "partition_index", "partition_id"}, {"name", "topic", "topic_name"})
# Attributes of a new topic, which an error response omits.
_NOT_REPEATED = frozenset({"num_partitions", "replication_factor"})


def _twin(field: Field, source: Struct) -> Field | None:
    """Find the request's field that corresponds to a response's field."""
    if field.name in _NOT_REPEATED:
        return None
    names = next((group for group in _SAME if field.name in group), {field.name})
    for candidate in source.FIELDS:
        if candidate.name in names and candidate.wire == field.wire and candidate.wire != "array":
            return candidate
    return None
