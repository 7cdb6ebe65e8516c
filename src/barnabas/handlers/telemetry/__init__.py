"""Client telemetry (KIP-714): `handler` serves the requests, `manager` has ClientTelemetry with subscriptions
and limits of each client, `series` exposes the pushed metrics to Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.handlers.telemetry.handler import PushQueue as PushQueue
    from barnabas.handlers.telemetry.manager import ClientTelemetry as ClientTelemetry
    from barnabas.handlers.telemetry.manager import TelemetryLimits as TelemetryLimits
else:
    __getattr__ = lazy_exports(__name__)
