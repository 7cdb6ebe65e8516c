"""Syslog source: UDP, TCP and TLS, RFC 3164 and RFC 5424."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.syslog.source import DEFAULT_LISTEN, SyslogSettings, SyslogSource
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "source": "DEFAULT_LISTEN SyslogSettings SyslogSource",
        },
    )

__all__ = ["DEFAULT_LISTEN", "SyslogSettings", "SyslogSource"]
