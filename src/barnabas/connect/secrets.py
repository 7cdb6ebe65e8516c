"""Secrets in the declaration of a connector: where they may stand, and how they are kept out of everything shown.

`${env:NAME}` and `${file:PATH:KEY}` are looked up where a field is a `Secret`, whose text no repr shows. Elsewhere they
are refused: other fields are shown in logs, in the status and in Spark's plans. What a driver of a database says about
a connection may hold the password; `Redaction` takes it out of whatever is passed on.
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
MIN = 4  # letters: a shorter text is found in too many words to be taken out of them
_REFERENCE = re.compile(r"\$\{(env|file):[^}]*\}")
_IN_URL = re.compile(r"(?<=://)([^/@\s:]*):([^/@\s]*)(?=@)")
_IN_QUERY = re.compile(r"(?i)([?&;](?:password|pwd|sslpassword|secret|token)=)([^&;\s]*)")


def with_secrets(settings: Any, kind: type[Any]) -> Any:
    """Settings as msgspec wants them for `kind`: texts in fields that are a Secret become one, with what they refer to.
    SecuritySettingError for a reference to what is not there."""
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
    """A dataclass is an object to msgspec."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise SecuritySettingError(f"`{name}`", "is a text")
    return {"text": resolve(f"`{name}`", value, trusted=True)}


def references_in(value: Any) -> Iterator[str]:
    """Those of texts that are no secrets."""
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
    """Takes known secrets, and passwords in URLs, out of texts."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        texts = {part for secret in secrets for part in _parts(secret.text)}
        self._texts = sorted((text for text in texts if len(text) >= MIN), key=len, reverse=True)

    def clean(self, text: str) -> str:
        for secret in self._texts:
            text = text.replace(secret, HIDDEN)
        return without_password(text)


class RedactingFilter(logging.Filter):
    """For the handlers of a process that runs connectors."""

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
    """URLs in it, without what makes a connection one's own."""
    text = _IN_URL.sub(rf"\1:{HIDDEN}", text)
    return _IN_QUERY.sub(rf"\1{HIDDEN}", text)


def _parts(text: str) -> Iterator[str]:
    """A URL is no secret as a whole: its password is."""
    passwords = [found[2] for found in (*_IN_URL.finditer(text), *_IN_QUERY.finditer(text))]
    if passwords:
        yield from passwords
    elif "://" not in text and not text.startswith("jdbc:"):
        yield text
