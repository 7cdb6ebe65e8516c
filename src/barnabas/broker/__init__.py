"""Assembly and lifecycle of a broker.

`parts` builds the components from the configuration, `Broker` starts and stops them, `main` runs a broker as a process.
Subpackages: `security/`, `tiering/` and `restore/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker as Broker
    from barnabas.broker.companions import BrokerCompanion as BrokerCompanion
    from barnabas.broker.companions import CompanionStart as CompanionStart
    from barnabas.broker.main import run as run
else:
    __getattr__ = lazy_exports(__name__)
