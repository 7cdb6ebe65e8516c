"""Client of a schema registry (Confluent's API): schemas by id, cached once fetched.

A schema never changes under its id, so cached schemas never expire; `latest` sends a request each time.

with SchemaClient("http://127.0.0.1:8081") as schemas:
    schema_id, payload = decode(record.value)
    schemas.schema(schema_id).text

From a coroutine: `await asyncio.to_thread(schemas.schema, schema_id)`, or `AsyncSchemaClient`, which does that.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.client.errors import ClientError
from barnabas.common.http_client import HttpSession

if TYPE_CHECKING:
    import ssl

# -- Names of schema registry subjects: context, name, and the topic a subject belongs to --------------

DEFAULT_CONTEXT = "."
_QUALIFIED = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)


def context_of(subject: str) -> str:
    found = _QUALIFIED.fullmatch(subject)
    return found[1] if found else DEFAULT_CONTEXT


def name_of(subject: str) -> str:
    """The subject without its context."""
    found = _QUALIFIED.fullmatch(subject)
    return found[2] if found else subject


def topic_of(subject: str) -> str:
    """Topic of `TOPIC-key` and `TOPIC-value`; any other name is a topic name."""
    name = name_of(subject)
    for ending in ("-value", "-key"):
        if name.endswith(ending) and len(name) > len(ending):
            return name.removesuffix(ending)
    return name


def qualified(subject: str, context: str = DEFAULT_CONTEXT) -> str:
    """Canonical form of a subject; without a context it belongs to `context`."""
    found = _QUALIFIED.fullmatch(subject)
    where, name = (found[1], found[2]) if found else (context, subject)
    return name if where == DEFAULT_CONTEXT else f":{where}:{name}"


MAGIC = 0
PREFIX = 5  # bytes before the payload: the magic byte and the id
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT = 10.0
MAX_CACHED = 10_000  # schemas; a typical consumer needs a handful
MAX_ANSWER = 16 * 1024 * 1024


class RegistryError(ClientError):
    """The registry's refusal, with Confluent's error code (40403: no schema with this id)."""

    def __init__(self, message: str, status: int = 0, code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class NotFramedError(ValueError):
    """The value does not begin with a schema id: its producer used no serializer with a registry."""


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """`name` is what the schema calls it (an import, a `$ref`, a type); subject and version say where it is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    type: str  # AVRO, JSON or PROTOBUF
    text: str
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    subject: str
    version: int
    id: int
    schema: Schema


def decode(data: bytes) -> tuple[int, bytes]:
    """(schema id, payload) of a value as serializers write it: 0, four bytes of id, payload.

    A Protobuf payload begins with the path of its message: `split_message_index` takes it off.
    """
    if len(data) < PREFIX or data[0] != MAGIC:
        raise NotFramedError(
            "the value does not begin with a schema id (a zero byte and four bytes): "
            "it was not written with a schema registry"
        )
    return int.from_bytes(data[1:PREFIX], "big"), bytes(data[PREFIX:])


def encode(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def split_message_index(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Message index path in the .proto file, outermost first, and the message itself."""
    count, at = _zigzag(payload, 0)
    if count == 0:
        return (0,), payload[at:]
    if not 0 < count <= len(payload):
        raise NotFramedError(f"the path of the Protobuf message cannot have {count} parts")
    path = []
    for _ in range(count):
        index, at = _zigzag(payload, at)
        path.append(index)
    return tuple(path), payload[at:]


def join_message_index(path: Sequence[int], message: bytes) -> bytes:
    if tuple(path) == (0,):
        return b"\0" + message
    return b"".join([_to_zigzag(len(path)), *map(_to_zigzag, path), message])


class SchemaClient:
    """Blocks; usable by any thread. `user` and `password`, or `token`, are sent with each request.

    `tls`: trusted CAs and the certificate of this client. `settings.RegistryAccount` makes a client from settings.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str = "",
        password: str = "",
        token: str = "",
        timeout: float = TIMEOUT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a valid schema registry URL: write http://HOST:PORT")
        self.url = url.rstrip("/")
        self._parts = parts
        headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
        user, password = user or _plain(parts.username), password or _plain(parts.password)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif user:
            headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self._cache: dict[int, Schema] = {}
        self._lock = threading.Lock()  # of the session
        self._session = HttpSession(
            self.url, timeout=timeout, max_bytes=MAX_ANSWER, headers=headers, tls=tls, may_repeat=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._session.close()

    def schema(self, schema_id: int) -> Schema:
        found = self._cache.get(schema_id)
        if found is None:
            found = _schema(self.request("GET", f"/schemas/ids/{schema_id}"))
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[schema_id] = found
        return found

    def subjects_of(self, schema_id: int) -> frozenset[str]:
        """Subjects that have this schema, deleted ones too: their records may still exist. Not cached."""
        found = self.request("GET", f"/schemas/ids/{schema_id}/versions?deleted=true")
        return frozenset(str(each["subject"]) for each in found)

    def subjects(self) -> list[str]:
        """All subjects, deleted ones too."""
        found = self.request("GET", "/subjects?deleted=true")
        return [str(each) for each in found]

    def cached(self, schema_id: int) -> Schema | None:
        return self._cache.get(schema_id)

    def latest(self, subject: str) -> SubjectVersion:
        return self.version(subject, "latest")

    def version(self, subject: str, version: int | str) -> SubjectVersion:
        """Schema of a subject version; also resolves references: `version(reference.subject, reference.version)`."""
        found = self.request("GET", f"/subjects/{quoted(subject)}/versions/{version}")
        return SubjectVersion(found["subject"], found["version"], found["id"], _schema(found))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Register a schema and return its id; an existing schema keeps its id."""
        path = f"/subjects/{quoted(subject)}/versions{'?normalize=true' if normalize else ''}"
        answer = self.request("POST", path, _document(schema))
        number: int = answer["id"]
        return number

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Id of a schema that the subject has; RegistryError (404) otherwise."""
        path = f"/subjects/{quoted(subject)}{'?normalize=true' if normalize else ''}"
        number: int = self.request("POST", path, _document(schema))["id"]
        return number

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """JSON of the response; RegistryError for an error status or a failed connection."""
        data = b"" if body is None else json.dumps(body).encode()
        try:
            with self._lock:
                status, _, text = self._session.request(method, path, data)
        except OSError as error:
            reason = _reason(error)
            raise RegistryError(f"the schema registry at {self._url} did not respond: {reason}") from error
        try:
            document = json.loads(text) if text else None
        except ValueError:
            raise RegistryError(f"{self._url} returned HTTP {status} without JSON", status) from None
        if status >= 300:
            raise _refusal(self._url, status, document)
        return document

    @property
    def _url(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}"


class AsyncSchemaClient:
    """SchemaClient for coroutines: cached schemas return at once, requests run in a thread."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = SchemaClient(url, **options)

    async def schema(self, schema_id: int) -> Schema:
        if (found := self.client.cached(schema_id)) is not None:
            return found
        return await asyncio.to_thread(self.client.schema, schema_id)

    async def latest(self, subject: str) -> SubjectVersion:
        return await asyncio.to_thread(self.client.latest, subject)

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        return await asyncio.to_thread(self.client.register, subject, schema, normalize=normalize)

    async def close(self) -> None:
        await asyncio.to_thread(self.client.close)


def quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _reason(error: OSError) -> str:
    if type(error).__name__ == "SSLCertVerificationError":
        return (
            f"its certificate is not trusted here ({getattr(error, 'verify_message', error)}): "
            "set schema.registry.ssl.ca.location"
        )
    return str(error) or type(error).__name__


def _plain(text: str | None) -> str:
    return urllib.parse.unquote(text or "")


def _schema(document: dict[str, Any]) -> Schema:
    references = tuple(
        SchemaReference(one["name"], one["subject"], one["version"])
        for one in document.get("references") or ()
    )
    return Schema(document.get("schemaType") or "AVRO", document["schema"], references)


def _document(schema: Schema) -> dict[str, Any]:
    references = [
        {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
    ]
    return {"schema": schema.text, "schemaType": schema.type, "references": references}


def _refusal(url: str, status: int, document: Any) -> RegistryError:
    known = document if isinstance(document, dict) else {}
    text = known.get("message") or f"HTTP {status}"
    return RegistryError(f"{url} rejected the request: {text}", status, known.get("error_code") or status)


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise NotFramedError("the path of the Protobuf message is truncated")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _to_zigzag(number: int) -> bytes:
    value, out = (number << 1) ^ (number >> 31), bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
