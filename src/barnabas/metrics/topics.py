"""Traffic by topic, under the names of Kafka's dashboards.

As in Kafka, the sample without a topic is the sum over all topics, deleted ones included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.metrics import catalogue, tiering_catalogue
from barnabas.metrics.registry import Counter, Registry, Sample

AUDIT_TOPIC = "__barnabas_audit"
_BROKERS_WRITE = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", AUDIT_TOPIC})
"""Topics that clients neither write nor truncate. Metadata lists the audit topic as an ordinary one, so that collectors
find it."""

# By attribute of TopicCounters.
_METRICS = {
    "bytes_in": catalogue.BYTES_IN,
    "bytes_out": catalogue.BYTES_OUT,
    "messages_in": catalogue.MESSAGES_IN,
    "produces": catalogue.PRODUCES,
    "fetches": catalogue.FETCHES,
    "failed_produces": catalogue.FAILED_PRODUCES,
    "failed_fetches": catalogue.FAILED_FETCHES,
    "remote_fetches": tiering_catalogue.REMOTE_FETCHES,
    "remote_bytes_out": tiering_catalogue.REMOTE_FETCH_BYTES,
    "failed_remote_fetches": tiering_catalogue.FAILED_REMOTE_FETCHES,
    "remote_copies": tiering_catalogue.REMOTE_COPIES,
    "remote_bytes_in": tiering_catalogue.REMOTE_COPY_BYTES,
    "failed_remote_copies": tiering_catalogue.FAILED_REMOTE_COPIES,
    "remote_deletes": tiering_catalogue.REMOTE_DELETES,
    "failed_remote_deletes": tiering_catalogue.FAILED_REMOTE_DELETES,
    "built_remote_aux": tiering_catalogue.BUILT_REMOTE_AUX,
    "failed_remote_aux": tiering_catalogue.FAILED_REMOTE_AUX,
}


class TopicCounters:
    """The counters of one topic; its partitions hold them and add to their values."""

    __slots__ = (
        "built_remote_aux", "bytes_in", "bytes_out", "failed_fetches", "failed_produces", "failed_remote_aux",
        "failed_remote_copies",
        "failed_remote_deletes", "failed_remote_fetches", "fetches", "is_audit", "is_internal", "messages_in",
        "produces",
        "remote_bytes_in", "remote_bytes_out", "remote_copies", "remote_deletes", "remote_fetches",
    )  # fmt: skip

    def __init__(self, topic: str = "") -> None:
        self.is_internal = topic in _BROKERS_WRITE
        self.is_audit = topic == AUDIT_TOPIC
        self.bytes_in = Counter()
        self.bytes_out = Counter()
        self.messages_in = Counter()
        self.produces = Counter()
        self.fetches = Counter()
        self.failed_produces = Counter()
        self.failed_fetches = Counter()
        self.remote_fetches = Counter()
        self.remote_bytes_out = Counter()
        self.failed_remote_fetches = Counter()
        self.remote_copies = Counter()
        self.remote_bytes_in = Counter()
        self.failed_remote_copies = Counter()
        self.remote_deletes = Counter()
        self.failed_remote_deletes = Counter()
        self.built_remote_aux = Counter()
        self.failed_remote_aux = Counter()


class TopicMetrics:
    def __init__(self, registry: Registry) -> None:
        self._topics: dict[str, TopicCounters] = {}
        self._deleted = TopicCounters()
        for attribute, metric in _METRICS.items():
            registry.computed(metric, self._reader(attribute))

    def of(self, topic: str) -> TopicCounters:
        """Return the counters of a topic; the first call creates them."""
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = TopicCounters(topic)
        return counters

    def remove(self, topic: str) -> None:
        """Stop showing a deleted topic; its counts stay in the sums."""
        counters = self._topics.pop(topic, None)
        if counters is not None:
            for attribute in _METRICS:
                getattr(self._deleted, attribute).value += getattr(counters, attribute).value

    def _reader(self, attribute: str) -> Callable[[], Iterator[Sample]]:
        def read() -> Iterator[Sample]:
            values = {name: getattr(topic, attribute).value for name, topic in self._topics.items()}
            yield Sample("", (), sum(values.values()) + getattr(self._deleted, attribute).value)
            for name in sorted(values):
                yield Sample("", (("topic", name),), values[name])

        return read
