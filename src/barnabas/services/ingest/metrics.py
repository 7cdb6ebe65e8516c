"""Metrics and status of an agent, computed on each scrape. docs/ingest.md lists them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from barnabas.client.status import ProcessStatus, StatusPart
from barnabas.metrics import Metric, Registry, Sample, catalogue, counter, gauge, open_files, resident_memory
from barnabas.services.ingest.agent import Agent, IngestSource, SourceCounts

RECORDS = counter(
    "barnabas_ingest_records_total", "Records written to topics, including dead letters.", "source"
)
BYTES = counter("barnabas_ingest_bytes_total", "Bytes read from sources and committed to topics.", "source")
TRANSACTIONS = counter("barnabas_ingest_transactions_total", "Committed transactions.")
RESTARTS = counter("barnabas_ingest_restarts_total", "Restarts of the agent from its stored positions.")
LAST_COMMIT = gauge("barnabas_ingest_last_commit_seconds", "Time of the last commit, in seconds since 1970.")
LAG = gauge("barnabas_ingest_lag_bytes", "Bytes that are available but not read yet.", "source")
OBSERVED = {
    "connections": gauge("barnabas_ingest_connections", "Open connections of senders.", "source"),
    "dead_letters": counter(
        "barnabas_ingest_dead_letters_total", "Records that were too large or could not be parsed.", "source"
    ),
    "dropped": counter("barnabas_ingest_dropped_total", "Messages received and dropped.", "source"),
    "errors": counter(
        "barnabas_ingest_errors_total", "Files, pages or messages that could not be read.", "source"
    ),
    "files": gauge("barnabas_ingest_files", "Open files.", "source"),
    "received": counter("barnabas_ingest_received_total", "Messages and records received.", "source"),
    "refused": counter("barnabas_ingest_refused_total", "Rejected connections and requests.", "source"),
    "replayed": counter(
        "barnabas_ingest_replayed_total",
        "Repeated requests that were already written (Idempotency-Key).",
        "source",
    ),
    "truncations": counter("barnabas_ingest_truncations_total", "Truncated files.", "source"),
}
"""By the name used in `SourceStatus.counts`."""
METRICS: tuple[Metric, ...] = (RECORDS, BYTES, TRANSACTIONS, RESTARTS, LAST_COMMIT, LAG, *OBSERVED.values())


def declare_agent_metrics(registry: Registry, agent: Agent) -> None:
    counts = agent.counts
    registry.read_by(TRANSACTIONS, lambda: counts.transactions)
    registry.read_by(RESTARTS, lambda: counts.restarts)
    registry.read_by(LAST_COMMIT, lambda: counts.last_commit)
    registry.computed(RECORDS, lambda: _committed(agent, lambda each: each.records))
    registry.computed(BYTES, lambda: _committed(agent, lambda each: each.bytes))
    registry.computed(LAG, lambda: _observed(agent, lambda source: source.observe().lag))
    for name, metric in OBSERVED.items():
        registry.computed(
            metric,
            lambda name=name: _observed(agent, lambda source: source.observe().counts.get(name)),  # type: ignore[misc]
        )
    registry.read_by(catalogue.CPU_SECONDS, time.process_time)
    registry.read_by(catalogue.RESIDENT_MEMORY, resident_memory)
    registry.read_by(catalogue.OPEN_FILES, open_files)


def _committed(agent: Agent, read: Callable[[SourceCounts], int]) -> Iterator[Sample]:
    for name, counts in agent.by_source.items():
        yield Sample("", (("source", name),), read(counts))


def _observed(agent: Agent, read: Callable[[IngestSource], int | None]) -> Iterator[Sample]:
    for source in agent.sources:
        value = read(source)
        if value is not None:
            yield Sample("", (("source", source.name),), value)


def status_of(agent: Agent) -> ProcessStatus:
    """Return the status record for `__barnabas_status`."""
    counts = agent.counts
    return ProcessStatus(
        "agent",
        agent.name,
        agent.state,
        error=counts.last_error if agent.state in ("retrying", "failed") else "",
        counts={"transactions": counts.transactions, "restarts": counts.restarts},
        parts=[_part(agent, source) for source in agent.sources],
    )


def _part(agent: Agent, source: IngestSource) -> StatusPart:
    committed, observed = agent.by_source[source.name], source.observe()
    return StatusPart(
        source.name,
        agent.state,
        lag=observed.lag,
        counts={
            "records": committed.records,
            "bytes": committed.bytes,
            "last_commit": round(committed.last_commit * 1000),
            **observed.counts,
        },
        kind=source.kind,
        topics=list(source.topics),
    )
