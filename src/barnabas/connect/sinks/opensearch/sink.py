"""`to: {opensearch: {url: "https://search:9200", index: orders, user: barnabas, password: "${env:SEARCH}"}}`"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from barnabas.common.durations import seconds_of
from barnabas.connect.ends import ROUTE, Context, End
from barnabas.connect.secrets import without_password
from barnabas.spark.errors import PipelineError
from barnabas.security.secret import Secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect.http_client import Address
    from barnabas.connect.sinks.opensearch.writing import OpenSearchWriter

NEEDED = ("_topic", "_partition", "_offset", "_key")


class OpenSearchSink(End, frozen=True):
    """A record is a document. Its `_id` is the record's `key`, or its place (`offset`: topic-partition-offset), or made
    of fields; its version is the offset. A record without a value leaves `{"deleted": true}`."""

    is_routed: ClassVar[bool] = True

    url: str
    index: str | None = None
    id: str | list[str] = "key"
    user: str | None = None
    password: Secret | None = None
    api_key: Secret | None = None
    ca: str | None = None
    """A file with the certificates that are trusted, where the system's do not have them."""
    deleted: str = "deleted"
    """The field that is true in the document of a deleted record."""
    max_bytes: int = 5_000_000
    """Of one request."""
    patience: str = "5 minutes"
    """How long a server that takes nothing is waited for before the connector fails, and is started again."""

    def place(self) -> str:
        return f"index {self.index or '(by route)'} of {without_password(self.url)}"

    def open(self, session: SparkSession, context: Context, columns: Mapping[str, str]) -> OpenSearchWriter:
        from barnabas.connect.sinks.opensearch.writing import OpenSearchWriter

        self._check(columns)
        return OpenSearchWriter(self, context, columns)

    def address(self) -> Address:
        from barnabas.connect.http_client import Address

        return Address(self.url, self.user, self.password, self.api_key, self.ca, port=9200)

    def patience_seconds(self) -> float:
        return seconds_of(self.patience)

    def _check(self, columns: Mapping[str, str]) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise PipelineError(
                "`url` of a sink `opensearch` is as `https://host:9200`; user and password stand in `user` and "
                "`password`."
            )
        if any(name not in columns for name in NEEDED):
            raise PipelineError(
                "A sink `opensearch` writes records of topics, whose offsets are the versions of documents: let one "
                "connector bring the rows into a topic, and another one write that."
            )
        if self.index is None and ROUTE not in columns:
            raise PipelineError(
                "Where to write: give the sink `index`, or the connector a transform `route`."
            )
        if self.index is not None and self.index != self.index.lower():
            raise PipelineError(f"The name of an index has no capital letters: {self.index}.")
        if self.max_bytes < 1:
            raise PipelineError("`max_bytes` of a sink `opensearch` is a number above 0.")
