"""Rows of a JSON endpoint, polled with a cursor.

from: {http: {url: "https://shop/api/orders", rows: items, cursor: after, next: next, schema: "id BIGINT"}}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from barnabas.common.durations import seconds_of
from barnabas.common.http_client import HttpResponse
from barnabas.connect.endpoints import ERROR, ORDER, ConnectorContext, ConnectorEndpoint
from barnabas.connect.http_address import HttpAddress
from barnabas.connect.staging import StagedRows
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from barnabas.connect.http_address import HttpAddress


# -- Responses: rows and the next cursor. No I/O -------------------------------------------------------

Cursor = str | None


class ResponsePage(NamedTuple):
    rows: Sequence[bytes]
    """Rows, each encoded as JSON."""
    cursor: Cursor
    """Cursor of the next request."""


@dataclass(frozen=True)
class PageLayout:
    """Paths of the rows and the cursor, such as `data.items`; empty for the whole response. The cursor is the value at
    `next`, or the `field` of the last row."""

    rows: str
    next: str | None
    field: str | None


_encode = msgspec.json.Encoder().encode


def page_of(body: bytes, layout: PageLayout, cursor: Cursor) -> ResponsePage:
    """Parse a response; PipelineError if it has no rows or no new cursor."""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise PipelineError(f"The response is not valid JSON: {body[:200]!r}.", error) from None
    rows = at_path(answer, layout.rows)
    if not isinstance(rows, list):
        where = f"at `{layout.rows}` of the response" if layout.rows else "in the response"
        raise PipelineError(f"No list of rows {where}: check `rows` of the source.")
    if layout.field is not None:
        return _by_field(rows, layout.field, cursor)
    following = _text(at_path(answer, layout.next or ""))
    if following is None:
        following = cursor
    if rows and following == cursor:
        raise PipelineError(
            f"A response with {len(rows)} rows has no new cursor at `{layout.next}`: the same rows would be reread. "
            "Every response must contain the next cursor, or `field` must name an increasing field of the rows."
        )
    return ResponsePage([_encode(row) for row in rows], following)


def _by_field(rows: list[Any], field: str, cursor: Cursor) -> ResponsePage:
    """Take the cursor from the last row; skip the row of the old cursor, which some endpoints repeat."""
    cursors = [_text(at_path(row, field)) for row in rows]
    if None in cursors:
        raise PipelineError(
            f"A row has no `{field}`, which is the cursor: {_encode(rows[cursors.index(None)])[:200]!r}."
        )
    new = [row for row, own in zip(rows, cursors, strict=True) if own != cursor]
    return ResponsePage([_encode(row) for row in new], cursors[-1] if new else cursor)


def at_path(value: Any, path: str) -> Any:
    """Return the value at the path, or None."""
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> Cursor:
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else _encode(value).decode()


class HttpPollSource(ConnectorEndpoint, frozen=True):
    """A JSON endpoint polled every `trigger`. The request parameter `cursor` carries the cursor of the last response:
    the value at `next`, or the `field` of the last row."""

    url: str
    schema: str
    cursor: str
    next: str | None = None
    field: str | None = None
    start: str | None = None
    """Initial cursor. None: the first request has none."""
    rows: str = ""
    """Path of the list of rows in a response, such as `data.items`. Empty: the response is the list."""
    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    """Token for `Authorization: Bearer`."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Additional headers, without secrets."""
    ca: str | None = None
    """File of trusted CA certificates, in place of the system's."""
    timeout: str = "30 seconds"
    max_bytes: int = 64 << 20
    """Maximum size of a response."""

    def location(self) -> str:
        return f"{self.url.split('?')[0]} by {self.cursor}"

    def read(self, session: SparkSession, context: ConnectorContext) -> DataFrame:
        from pyspark.sql import functions as F

        self._check()
        layout = PageLayout(self.rows, self.next, self.field)
        schema = self._columns(session)
        feeder = PageFeeder(
            session, self._address(), self.cursor, self.start, layout, schema, context.storage
        )
        context.feeders.append(feeder)
        wrong = F.when(F.col(CORRUPT).isNotNull(), F.lit("the row does not match the schema"))
        return feeder.incoming.stream(feeder.stored).withColumn(ERROR, wrong)

    def _address(self) -> HttpAddress:
        from barnabas.connect.http_address import HttpAddress

        others = tuple({"Accept": "application/json", **self.headers}.items())
        return HttpAddress(
            self.url, self.user, self.password, ca=self.ca, timeout=seconds_of(self.timeout), token=self.token,
            others=others, largest=self.max_bytes,
        )  # fmt: skip

    def _check(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise PipelineError(
                "`url` of a source `http` must be like `https://host/path`; set secrets in `token`, or in `user` and "
                "`password`."
            )
        if (self.next is None) == (self.field is None):
            raise PipelineError(
                "A source `http` needs either `next`, the path of the next cursor in a response, or `field`, the field "
                "of the last row that is the cursor."
            )
        try:
            seconds_of(self.timeout)
        except ValueError as error:
            raise PipelineError(f"`timeout`: {error}.") from None

    def _columns(self, session: SparkSession) -> StructType:
        from pyspark.errors import PySparkException

        try:
            return session.createDataFrame([], self.schema).schema
        except PySparkException as error:
            raise PipelineError(
                "`schema` of a source `http` must be a list of columns, for example `id BIGINT, name STRING`.",
                error,
            ) from None


# -- Requests: poll from the last cursor and stage the rows (`staging`) --------------------------------

CORRUPT = "_corrupt_record"
BUSY = frozenset({429, 500, 502, 503, 504})
PAUSES = (0.5, 1.0, 2.0)
"""Seconds between the attempts of a request; then the connector fails and is restarted."""
MAX_IN_A_PAGE = 1 << 32


class PageFeeder:
    def __init__(
        self,
        session: SparkSession,
        address: HttpAddress,
        parameter: str,
        start: Cursor,
        layout: PageLayout,
        schema: StructType,
        storage: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = session
        self._http = address.session()
        self._query = urlsplit(address.url).query
        self._parameter = parameter
        self._start = start
        self._layout = layout
        self._schema = StructType([*schema.fields]).add(CORRUPT, StringType())
        self._sleep = sleep
        self.incoming = StagedRows(session, storage)
        self.stored = StructType([*self._schema.fields]).add(ORDER, LongType())

    def fetch(self) -> bool:
        incoming = self.incoming
        incoming.open(self.stored)
        last, cursor = incoming.last()
        cursor = self._start if cursor is None else cursor
        page = page_of(self._ask(cursor).body, self._layout, cursor)
        if page.cursor == cursor:
            return False
        incoming.stage_rows(last + 1, page.cursor, self._rows(page, last + 1))
        return True

    def _rows(self, page: ResponsePage, number: int) -> DataFrame:
        lines = [(row.decode(), number * MAX_IN_A_PAGE + index) for index, row in enumerate(page.rows)]
        frame = self._session.createDataFrame(lines, f"line STRING, {ORDER} BIGINT")
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        return frame.withColumn("row", F.from_json("line", self._schema, options)).select("row.*", ORDER)

    def _ask(self, cursor: Cursor) -> HttpResponse:
        parameters = {} if cursor is None else {self._parameter: cursor}
        query = "&".join(filter(None, (self._query, urlencode(parameters))))
        reason = ""
        try:
            for pause in (*PAUSES, None):
                reply, reason = self._once(f"?{query}" if query else "")
                if reply is not None:
                    return reply
                if pause is not None:
                    self._sleep(pause)
        finally:
            self._http.close()  # idle until the next poll, after the rows are written
        raise PipelineError(f"The endpoint does not respond ({reason}); retrying.")

    def _once(self, query: str) -> tuple[HttpResponse | None, str]:
        try:
            reply = self._http.request("GET", query)
        except OSError as error:
            return None, str(error) or type(error).__name__
        if reply.status in BUSY:
            return None, f"status {reply.status}"
        if reply.status in (401, 403):
            raise PipelineError(
                f"The endpoint rejects the request (status {reply.status}): check `token`, or `user` and `password`."
            )
        if reply.status != 200:
            raise PipelineError(
                f"The endpoint returned status {reply.status}: check `url`; redirects are not followed.",
                repr(reply.body[:300]),
            )
        return reply, ""
