"""Syslog source: UDP, TCP and TLS, RFC 3164 and RFC 5424."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.syslog.source import DEFAULT_LISTEN as DEFAULT_LISTEN
    from barnabas.services.ingest.syslog.source import SyslogSettings as SyslogSettings
    from barnabas.services.ingest.syslog.source import SyslogSource as SyslogSource
else:
    __getattr__ = lazy_exports(__name__)
