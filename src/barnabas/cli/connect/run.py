"""Runs connectors for `barnabas connect run`: progress output and exit status."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from barnabas.cli.output import count, say
from barnabas.cli.pipeline.run import served, stopped_by_signals
from barnabas.connect import (
    Connector,
    ConnectorGroup,
    RedactingFilter,
    Redaction,
    RunningConnector,
    check_together,
    connectors_session,
    secrets_in,
)
from barnabas.pipelines.running import (
    FlowProgress,
    PipelineReport,
    Reports,
    exported,
    otlp_settings,
    pipelines_registry,
)
from barnabas.spark import PipelineError

TELL_SECONDS = 10.0


def run_connectors(
    connectors: Sequence[Connector],
    *,
    master: str | None,
    once: bool,
    metrics: str | None,
    otlp: str | None = None,
) -> None:
    _log_without_secrets(connectors)
    check_together(connectors)
    collector = otlp_settings(otlp, "connect")
    names = ", ".join(one.name for one in connectors)
    say(f"Starting Spark for {names}.")
    with connectors_session(connectors, master) as session:
        host = ConnectorGroup(connectors, session)
        reports = Reports([reported_by(one) for one in host.running])
        reports.start()
        try:
            registry = pipelines_registry({one.connector.name: _flows_of(one) for one in host.running})
            with stopped_by_signals(host.stop), served(registry, metrics), exported(registry, collector):
                if once:
                    _run_once(host)
                else:
                    say(f"{names}: running. Ctrl-C stops.")
                    host.run(_StatusPrinter().tell)
        finally:
            reports.stop()
    for one in host.running:
        say(_last_words(one, "has moved all rows" if once else "has stopped"))


def reported_by(one: RunningConnector) -> PipelineReport:
    return PipelineReport(f"connect-{one.connector.name}", one.connector.configuration, one.status, one.hear)


def _run_once(host: ConnectorGroup) -> None:
    failed: list[PipelineError] = []
    for one in host.running:
        try:
            one.run_once()
        except PipelineError as error:
            say(f"{one.connector.name}: {error}")
            failed.append(error)
    if failed:
        raise PipelineError(
            f"{count(len(failed), 'connector')} failed; the next run resumes at their last committed position."
        )


def _log_without_secrets(connectors: Sequence[Connector]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    secrets = [secret for one in connectors for secret in (*secrets_in(one.source), *secrets_in(one.sink))]
    for handler in logging.getLogger().handlers:
        handler.addFilter(RedactingFilter(Redaction(secrets)))


class _StatusPrinter:
    """Prints a line for each connector every few seconds."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def tell(self, running: Sequence[RunningConnector]) -> None:
        if time.monotonic() - self._told < TELL_SECONDS:
            return
        self._told = time.monotonic()
        for one in running:
            seen = one.status()
            lag = "" if one.flow.lag is None else f", {one.flow.lag:,} behind"
            say(f"{seen.name} is {seen.state}: {count(int(seen.counts['rows']), 'row')}{lag}.")


def _last_words(one: RunningConnector, ended: str) -> str:
    seen = one.status()
    rejected = int(seen.counts["rejected"])
    letters = f", {count(rejected, 'dead letter')}" if rejected else ""
    how = ended if seen.state == "stopped" else f"is {seen.state}"
    return f"{seen.name} {how}: {count(int(seen.counts['rows']), 'row')} read{letters}."


def _flows_of(one: RunningConnector) -> Callable[[], list[FlowProgress]]:
    return lambda: [one.flow]
