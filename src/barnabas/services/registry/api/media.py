"""Content types of Confluent's registry, in requests and responses."""

from __future__ import annotations

from barnabas.services.registry import errors

JSON_V1 = "application/vnd.schemaregistry.v1+json"
JSON_ANY = "application/vnd.schemaregistry+json"
JSON = "application/json"
OCTETS = "application/octet-stream"

ACCEPT_UNKNOWN = "confluent-accept-unknown-properties"  # the client ignores unknown fields in responses

_GIVEN = (JSON_V1, JSON_ANY, JSON)
_TAKEN = frozenset({*_GIVEN, OCTETS})


def check_content_type(header: str) -> None:
    """Reject unsupported content types; a body without a type is treated as JSON."""
    if header and _bare(header) not in _TAKEN:
        raise errors.http_error(415)


def answered(accept: str) -> str:
    """Content type of the response: the client's most preferred supported type."""
    if not accept.strip():
        return JSON_V1
    for content_type in sorted(accept.split(","), key=_quality, reverse=True):
        kind = _bare(content_type)
        if kind.startswith("*") or kind == "application/*":
            return JSON_V1
        if kind in _GIVEN:
            return kind
    raise errors.http_error(406)


def takes_new_fields(headers: dict[str, str]) -> bool:
    """True if the client accepts unknown fields; Confluent's clients send the header only with a body."""
    return headers.get(ACCEPT_UNKNOWN, "").strip().lower() == "true"


def _bare(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _quality(text: str) -> float:
    for part in text.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
