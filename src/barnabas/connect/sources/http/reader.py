"""Polls an endpoint from the last cursor and stages its rows (`staging`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from barnabas.common.http_client import HttpResponse
from barnabas.connect.endpoints import ORDER
from barnabas.connect.http_address import HttpAddress
from barnabas.connect.sources.http.pages import Cursor, PageLayout, ResponsePage, page_of
from barnabas.connect.staging import Incoming
from barnabas.spark import PipelineError

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
        self.incoming = Incoming(session, storage)
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
        asked = {} if cursor is None else {self._parameter: cursor}
        query = "&".join(filter(None, (self._query, urlencode(asked))))
        why = ""
        try:
            for pause in (*PAUSES, None):
                reply, why = self._once(f"?{query}" if query else "")
                if reply is not None:
                    return reply
                if pause is not None:
                    self._sleep(pause)
        finally:
            self._http.close()  # idle until the next poll, after the rows are written
        raise PipelineError(f"The endpoint gives no answer ({why}); it is asked again.")

    def _once(self, query: str) -> tuple[HttpResponse | None, str]:
        try:
            reply = self._http.request("GET", query)
        except OSError as error:
            return None, str(error) or type(error).__name__
        if reply.status in BUSY:
            return None, f"status {reply.status}"
        if reply.status in (401, 403):
            raise PipelineError(
                f"The endpoint refuses (status {reply.status}): check `token`, or `user` and `password`."
            )
        if reply.status != 200:
            raise PipelineError(
                f"The endpoint answers with status {reply.status}: check `url`; a redirection is not followed.",
                repr(reply.body[:300]),
            )
        return reply, ""
