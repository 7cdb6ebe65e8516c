"""`from: {http: {url: "https://shop/api/orders", rows: items, cursor: after, next: next, schema: "id BIGINT"}}`"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.connect.endpoints import ERROR, ConnectorContext, ConnectorEndpoint
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from barnabas.connect.http_address import HttpAddress


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

        from barnabas.connect.sources.http.pages import PageLayout
        from barnabas.connect.sources.http.reader import CORRUPT, PageFeeder

        self._check()
        layout = PageLayout(self.rows, self.next, self.field)
        schema = self._columns(session)
        feeder = PageFeeder(
            session, self._address(), self.cursor, self.start, layout, schema, context.storage
        )
        context.feeders.append(feeder)
        wrong = F.when(F.col(CORRUPT).isNotNull(), F.lit("the row is not the JSON that its schema says"))
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
                "`schema` of a source `http` is as `id BIGINT, name STRING`.", error
            ) from None
