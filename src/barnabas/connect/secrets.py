"""Secrets in the declaration of a connector: resolving references, and redaction of output.

`${env:NAME}` and `${file:PATH:KEY}` are resolved in fields of type `Secret`, whose repr hides the text. They are
rejected elsewhere, because other fields appear in logs, in the status and in Spark's plans. A driver's error message
may contain the password; `Redaction` removes it from all output.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec

from barnabas.client.security import resolve
from barnabas.security.authn import Secret, SecuritySettingError

HIDDEN = "[hidden]"
MIN = 4  # characters: shorter secrets occur in too many words to be redacted
_REFERENCE = re.compile(r"\$\{(env|file):[^}]*\}")
_IN_URL = re.compile(r"(?<=://)([^/@\s:]*):([^/@\s]*)(?=@)")
_IN_QUERY = re.compile(r"(?i)([?&;](?:password|pwd|sslpassword|secret|token)=)([^&;\s]*)")


def with_secrets(settings: Any, kind: type[Any]) -> Any:
    """Prepare settings for msgspec: resolve references in the `Secret` fields of `kind`. SecuritySettingError for an
    unresolvable reference."""
    if not isinstance(settings, dict):
        return settings
    return {
        **settings,
        **{name: _secret(name, settings[name]) for name in _secret_fields(kind) if name in settings},
    }


def _secret_fields(kind: type[Any]) -> list[str]:
    fields = msgspec.structs.fields(kind)
    return [one.encode_name for one in fields if one.type is Secret or Secret in get_args(one.type)]


def _secret(name: str, value: Any) -> Any:
    """Return the object from which msgspec builds the Secret dataclass."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise SecuritySettingError(f"`{name}`", "is a text")
    return {"text": resolve(f"`{name}`", value, trusted=True)}


def references_in(value: Any) -> Iterator[str]:
    """Yield the references in strings outside of Secret fields."""
    if isinstance(value, str):
        yield from (found[0] for found in _REFERENCE.finditer(value))
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from references_in(getattr(value, field))
    elif isinstance(value, dict):
        for part in (*value, *value.values()):
            yield from references_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from references_in(part)


def secrets_in(value: Any) -> Iterator[Secret]:
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from secrets_in(getattr(value, field))
    elif isinstance(value, dict):
        for part in value.values():
            yield from secrets_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from secrets_in(part)


class Redaction:
    """Removes known secrets, and passwords in URLs, from text."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        texts = {part for secret in secrets for part in _parts(secret.text)}
        self._texts = sorted((text for text in texts if len(text) >= MIN), key=len, reverse=True)

    def clean(self, text: str) -> str:
        for secret in self._texts:
            text = text.replace(secret, HIDDEN)
        return without_password(text)


class RedactingFilter(logging.Filter):
    """Redacts log records; for the handlers of a process that runs connectors."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redaction.clean(record.getMessage()), ()
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_info, record.exc_text = None, self._redaction.clean(text)
        return True


def without_password(text: str) -> str:
    """Hide passwords in the URLs of a text."""
    text = _IN_URL.sub(rf"\1:{HIDDEN}", text)
    return _IN_QUERY.sub(rf"\1{HIDDEN}", text)


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a secret to redact: of a URL only its password."""
    passwords = [found[2] for found in (*_IN_URL.finditer(text), *_IN_QUERY.finditer(text))]
    if passwords:
        yield from passwords
    elif "://" not in text and not text.startswith("jdbc:"):
        yield text
