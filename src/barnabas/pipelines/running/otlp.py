"""Exports metrics of pipelines to an OpenTelemetry collector: OTLP over HTTP, in protobuf.

The variables are those of OpenTelemetry's specification. A collector that is slow or unreachable costs a pipeline
nothing: one thread sends, a bounded queue keeps the last reports, and the end of a run waits a few seconds at most.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from barnabas.common.http_client import fetch
from barnabas.metrics import Registry, encode_metrics
from barnabas.records.compression import Codec, compress
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

VARIABLE = "OTEL_EXPORTER_OTLP_"
PATH = "/v1/metrics"
PROTOCOL = "http/protobuf"
SCOPE = "barnabas.pipelines"
TIMEOUT_MS, INTERVAL_MS = 10_000, 60_000  # OpenTelemetry's defaults
MAX_QUEUED = 60  # reports: an hour without the collector
STOP_SECONDS = 3.0
RETRIED = frozenset({408, 429, 502, 503, 504})  # OTLP's retryable statuses, and a timeout of a proxy


class OtlpSettings(NamedTuple):
    url: str
    headers: Mapping[str, str]
    resource: Mapping[str, str]
    timeout: float
    interval: float
    compress: bool = False
    tls: ssl.SSLContext | None = None


def otlp_settings(endpoint: str | None, service: str) -> OtlpSettings | None:
    """Settings of --otlp and of the environment; None without an endpoint.

    PipelineError for an invalid --otlp. Variables may be meant for other programs: if they do not fit, a warning says
    so, and nothing is exported.
    """
    try:
        found = _endpoint_of(endpoint)
        return None if found is None else _settings(found, service)
    except (ValueError, OSError) as error:
        if endpoint is not None:
            raise PipelineError(f"Metrics cannot be exported: {error}.") from None
        log.warning("metrics are not exported: %s", error)
        return None


def _endpoint_of(given: str | None) -> str | None:
    if given is not None:
        return _with_path(given, "--otlp")
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "otlp":
        return None
    own, general = os.environ.get(f"{VARIABLE}METRICS_ENDPOINT"), os.environ.get(f"{VARIABLE}ENDPOINT")
    if not own and not general:
        return None
    protocol = _variable("PROTOCOL") or PROTOCOL
    if protocol != PROTOCOL:
        raise ValueError(
            f"{VARIABLE}PROTOCOL is {protocol!r}, and Barnabas sends {PROTOCOL}: use --otlp with that port"
        )
    if own:
        return _checked(own, f"{VARIABLE}METRICS_ENDPOINT")
    return _with_path(general or "", f"{VARIABLE}ENDPOINT")


def _with_path(base: str, name: str) -> str:
    return _checked(base, name).rstrip("/") + PATH


def _checked(url: str, name: str) -> str:
    if "@" in url:
        raise ValueError(f"{name} contains credentials: set {VARIABLE}HEADERS instead")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or parts.query:
        raise ValueError(f"{name} is not a valid URL: {url!r} (example: http://127.0.0.1:4318)")
    return url


def _settings(url: str, service: str) -> OtlpSettings:
    compression = _variable("COMPRESSION") or "none"
    if compression not in ("gzip", "none"):
        raise ValueError(f"{VARIABLE}COMPRESSION is neither gzip nor none: {compression!r}")
    resource = {"service.name": service, "service.instance.id": str(uuid.uuid4())}
    resource |= _pairs(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES")
    if name := os.environ.get("OTEL_SERVICE_NAME"):
        resource["service.name"] = name
    return OtlpSettings(
        url=url,
        headers=_pairs(_variable("HEADERS"), f"{VARIABLE}HEADERS"),
        resource=resource,
        timeout=_seconds(_variable("TIMEOUT"), f"{VARIABLE}TIMEOUT", TIMEOUT_MS),
        interval=_seconds(
            os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", ""), "OTEL_METRIC_EXPORT_INTERVAL", INTERVAL_MS
        ),
        compress=compression == "gzip",
        tls=_tls(_variable("CERTIFICATE"), _variable("CLIENT_CERTIFICATE"), _variable("CLIENT_KEY")),
    )


def _variable(name: str) -> str:
    """Value of a variable for metrics, or else for all signals."""
    return os.environ.get(f"{VARIABLE}METRICS_{name}") or os.environ.get(f"{VARIABLE}{name}", "")


def _pairs(text: str, name: str) -> dict[str, str]:
    """Parse `key=value,key=value`, percent-encoded. The error does not repeat the text: headers are secret."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator or not key.strip():
            raise ValueError(f"{name} is not a list of key=value, separated by commas")
        found[unquote(key.strip())] = unquote(value.strip())
    return found


def _seconds(text: str, name: str, default: int) -> float:
    if not text:
        return default / 1000
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"{name} is not a number of milliseconds: {text!r} (example: {default})")
    return int(text) / 1000


def _tls(authority: str, certificate: str, key: str) -> ssl.SSLContext | None:
    if not authority and not certificate:
        return None
    import ssl

    context = ssl.create_default_context(cafile=authority or None)
    if certificate:
        context.load_cert_chain(certificate, key or None)
    return context


# -- Sending -------------------------------------------------------------------------------------------


class OtlpExporter(threading.Thread):
    """Sends a registry periodically and at the end. Counters are totals since the start: a lost report loses none."""

    def __init__(self, registry: Registry, settings: OtlpSettings) -> None:
        super().__init__(name="otlp", daemon=True)
        self._registry = registry
        self._settings = settings
        self._start_time = time.time_ns()
        self._queue: deque[bytes] = deque(maxlen=MAX_QUEUED)
        self._stopping = threading.Event()
        self._is_warned = False

    def run(self) -> None:
        while not self._stopping.wait(self._settings.interval):
            self._report()
        self._report()

    def stop(self) -> None:
        """Send a last report, for a few seconds at most."""
        self._stopping.set()
        self.join(STOP_SECONDS)

    def _report(self) -> None:
        resource, now = self._settings.resource, time.time_ns()
        body = encode_metrics(self._registry, resource, SCOPE, start=self._start_time, now=now)
        self._queue.append(compress(Codec.GZIP, body) if self._settings.compress else body)
        while self._queue and self._is_sent(self._queue[0]):
            self._queue.popleft()

    def _is_sent(self, body: bytes) -> bool:
        """Send one report; True also if the collector rejects it, so that repeating it would be useless."""
        settings = self._settings
        headers = {"Content-Type": "application/x-protobuf", **settings.headers}
        if settings.compress:
            headers["Content-Encoding"] = "gzip"
        try:
            answer = fetch(
                settings.url,
                method="POST",
                body=body,
                headers=headers,
                timeout=settings.timeout,
                tls=settings.tls,
                use_proxy=True,
            )
        except (OSError, ValueError) as error:
            self._warn(str(error))
            return False
        if not 200 <= answer.status < 300:
            self._warn(f"HTTP status {answer.status}")
            return answer.status not in RETRIED
        self._is_warned = False
        return True

    def _warn(self, problem: str) -> None:
        """Once until a report has been accepted."""
        if not self._is_warned:
            log.warning("metrics were not accepted by %s: %s", self._settings.url, problem)
        self._is_warned = True


@contextmanager
def exported(registry: Registry, settings: OtlpSettings | None) -> Iterator[None]:
    """Export the registry during the `with` block."""
    if settings is None:
        yield
        return
    exporter = OtlpExporter(registry, settings)
    exporter.start()
    try:
        yield
    finally:
        exporter.stop()
