"""`to: {opensearch: {url: "https://search:9200", index: orders, user: barnabas, password: "${env:SEARCH}"}}`"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, urlsplit

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.common.http_client import HttpResponse, HttpSession
from barnabas.connect.endpoints import DELETED, ERROR, ROUTE, ConnectorContext, ConnectorEndpoint, fields_of
from barnabas.connect.http_address import HttpAddress, retry_after
from barnabas.connect.secrets import without_password
from barnabas.connect.sinks.opensearch.bulk import CONFLICT, DENIED, BulkError, Document
from barnabas.connect.sinks.opensearch.sending import BulkSender, ProgressTimeout
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession


# -- Topic identity ------------------------------------------------------------------------------------
# With more partitions, a key may move to one with lower offsets; a recreated topic starts again at offset 0. In both
# cases its offsets are no longer valid document versions, and the server would silently discard new records as stale.
#
# The identity of a topic is stored with its first record, in an index on the same server, so that it is lost only
# together with the documents. Tasks check it before they write.

IDENTITY_INDEX = "barnabas-connect"


class TopicIdentity(msgspec.Struct, frozen=True):
    id: str
    partitions: int


class _Stored(msgspec.Struct, frozen=True):
    source: TopicIdentity = msgspec.field(name="_source")


class TopicGuard:
    """Guard of one task. `look` asks the brokers for the current identity of topics."""

    def __init__(
        self,
        connector: str,
        session: HttpSession,
        look: Callable[[list[str]], Mapping[str, TopicIdentity]],
        patience: ProgressTimeout,
    ) -> None:
        self._connector, self._session, self._look, self._patience = connector, session, look, patience
        self._checked: set[str] = set()

    def check(self, topics: set[str]) -> None:
        new = sorted(topics - self._checked)
        for topic, now in (self._look(new) if new else {}).items():
            before = self._remembered(topic, now)
            if before != now:
                raise BulkError(self._sentence(topic, before, now))
        self._checked |= topics

    def _sentence(self, topic: str, before: TopicIdentity, now: TopicIdentity) -> str:
        what = (
            f"topic {topic} has {now.partitions} partitions instead of {before.partitions}"
            if before.id == now.id
            else f"topic {topic} was deleted and recreated"
        )
        return (
            f"{what}: its offsets no longer identify the newer document. Write to a new index: set another "
            "`name` and `index`, and the connector reads the topic from its beginning"
        )

    def _remembered(self, topic: str, now: TopicIdentity) -> TopicIdentity:
        path = quote(f"{self._connector}:{topic}", safe="")
        made = self._ask("PUT", f"/{IDENTITY_INDEX}/_create/{path}", msgspec.json.encode(now))
        if made.status in (200, 201):
            return now
        if made.status != CONFLICT:
            raise BulkError(
                f"cannot store the identity of topic {topic} in index {IDENTITY_INDEX}: {made.body[:300]!r}"
            )
        found = self._ask("GET", f"/{IDENTITY_INDEX}/_doc/{path}")
        try:
            return msgspec.json.decode(found.body, type=_Stored).source
        except msgspec.DecodeError as error:
            raise BulkError(
                f"the document of {topic} in index {IDENTITY_INDEX} is invalid: {error}"
            ) from None

    def _ask(self, method: str, path: str, body: bytes = b"") -> HttpResponse:
        while True:
            try:
                reply = self._session.request(method, path, body, {"Content-Type": "application/json"})
            except OSError as error:
                self._patience.wait(str(error) or type(error).__name__)
                continue
            if reply.status in DENIED:
                raise BulkError(
                    f"the server rejects the user (status {reply.status}): it needs the rights to read and write index "
                    f"{IDENTITY_INDEX}, and to create it"
                )
            if reply.status < 500 and reply.status != 429:
                return reply
            self._patience.wait(f"status {reply.status}", retry_after(reply))


# -- A micro-batch as one Spark job: tasks send documents and return the rejected rows -----------------

PORT = 9200
"""Port if the URL has none."""
INDEX, NAME, BODY = "_document_index", "_document_id", "_document"


class OpenSearchWriter:
    def __init__(self, sink: OpenSearchSink, context: ConnectorContext, columns: Mapping[str, str]) -> None:
        self._sink = sink
        self._columns = dict(columns)
        self._task = SendTask(
            sink.address(), context.name, context.broker_options(), sink.max_bytes, sink.patience_seconds()
        )

    def write(self, rows: DataFrame, query: str, batch: int) -> DataFrame | None:
        """Send eagerly: a later action on the rejected rows must not determine which documents are sent."""
        from pyspark.sql.types import StringType, StructType

        schema = StructType(rows.schema.fields).add(ERROR, StringType())
        sent = self._documents(rows).mapInArrow(self._task, schema)
        refused = sent.localCheckpoint()
        return None if refused.isEmpty() else refused

    def close(self) -> None:
        pass

    def _documents(self, rows: DataFrame) -> DataFrame:
        return rows.withColumns({INDEX: self._index(), NAME: self._name(), BODY: self._body()})

    def _index(self) -> Column:
        from pyspark.sql import functions as F

        return F.col(ROUTE) if ROUTE in self._columns else F.lit(self._sink.index)

    def _name(self) -> Column:
        from pyspark.sql import functions as F

        if self._sink.id == "offset":
            return F.concat_ws("-", "_topic", "_partition", "_offset")
        if self._sink.id == "key":
            return F.col("_key").cast("string")
        names = [self._sink.id] if isinstance(self._sink.id, str) else self._sink.id
        missing = [name for name in names if name not in self._columns]
        if missing:
            raise PipelineError(
                f"The rows have no field {missing[0]}, from which the sink builds the _id; they have "
                f"{', '.join(self._columns)}."
            )
        return F.concat_ws("-", *(F.col(f"`{name}`").cast("string") for name in names))

    def _body(self) -> Column:
        """Body of the document. Deletions are documents too: servers forget versions of deleted ones after a minute."""
        from pyspark.sql import functions as F

        fields = [F.col(f"`{name}`") for name in fields_of(self._columns)]
        body = F.to_json(F.struct(*fields))
        if DELETED not in self._columns:
            return body
        tombstone = F.to_json(F.struct(F.lit(True).alias(self._sink.deleted)))
        return F.when(F.coalesce(F.col(DELETED), F.lit(False)), tombstone).otherwise(body)


@dataclass(frozen=True)
class SendTask:
    """Function for `mapInArrow`, run in Spark's Python workers."""

    address: HttpAddress
    connector: str
    broker_options: Mapping[str, str]
    most_bytes: int
    patience: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = self.address.session()
        sender = BulkSender(session, self.most_bytes, ProgressTimeout(self.patience))
        guard = TopicGuard(self.connector, session, self._look, ProgressTimeout(self.patience))
        try:
            for batch in batches:
                guard.check(set(batch.column("_topic").unique().to_pylist()))
                yield _refused(batch, sender)
        finally:
            session.close()

    def _look(self, topics: list[str]) -> Mapping[str, TopicIdentity]:
        from barnabas.spark import Options, link_to

        link = link_to(**Options(self.broker_options, "sink").client_settings().link)
        found = link.run(link.client.topics(topics))
        return {name: TopicIdentity(str(found[name].id), len(found[name].partitions)) for name in topics}


def _refused(batch: pa.RecordBatch, sender: BulkSender) -> pa.RecordBatch:
    import pyarrow as pa

    refused = sender.send(documents_of(batch))
    kept = batch.drop_columns([INDEX, NAME, BODY]).take(pa.array([one.row for one in refused], pa.int64()))
    return kept.append_column(ERROR, pa.array([one.reason for one in refused], pa.string()))


def documents_of(batch: pa.RecordBatch) -> Iterator[Document]:
    columns = [batch.column(name).to_pylist() for name in (INDEX, NAME, "_offset", BODY)]
    for row, (index, name, offset, body) in enumerate(zip(*columns, strict=True)):
        yield Document(row, index or "", name or "", offset, body.encode())


NEEDED = ("_topic", "_partition", "_offset", "_key")


class OpenSearchSink(ConnectorEndpoint, frozen=True):
    """Each record is a document. Its `_id` is the record's `key`, its position (`offset`: topic-partition-offset), or
    built from fields; its version is the offset. A tombstone leaves `{"deleted": true}`."""

    is_routed: ClassVar[bool] = True

    url: str
    index: str | None = None
    id: str | list[str] = "key"
    user: str | None = None
    password: Secret | None = None
    api_key: Secret | None = None
    ca: str | None = None
    """File of trusted CA certificates, in place of the system's."""
    deleted: str = "deleted"
    """Name of the field that is true in the document of a deleted record."""
    max_bytes: int = 5_000_000
    """Maximum size of a request."""
    patience: str = "5 minutes"
    """Time without progress after which the connector fails and is restarted."""

    def location(self) -> str:
        return f"index {self.index or '(by route)'} of {without_password(self.url)}"

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> OpenSearchWriter:

        self._check(columns)
        return OpenSearchWriter(self, context, columns)

    def address(self) -> HttpAddress:
        parts = urlsplit(self.url)
        url = self.url if parts.port else parts._replace(netloc=f"{parts.netloc}:{PORT}").geturl()
        return HttpAddress(url, self.user, self.password, self.api_key, self.ca)

    def patience_seconds(self) -> float:
        return seconds_of(self.patience)

    def _check(self, columns: Mapping[str, str]) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise PipelineError(
                "`url` of a sink `opensearch` must be like `https://host:9200`; set user and password in `user` and "
                "`password`."
            )
        if any(name not in columns for name in NEEDED):
            raise PipelineError(
                "A sink `opensearch` reads from topics only, because offsets are the document versions: use one "
                "connector to write the rows to a topic, and another one from there."
            )
        if self.index is None and ROUTE not in columns:
            raise PipelineError("No target index: set `index` of the sink, or add a transform `route`.")
        if self.index is not None and self.index != self.index.lower():
            raise PipelineError(f"An index name must be lower case: {self.index}.")
        if self.max_bytes < 1:
            raise PipelineError("`max_bytes` of a sink `opensearch` must be greater than 0.")
