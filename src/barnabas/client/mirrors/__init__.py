"""Administration of mirror topics: status, pause, resume, promotion and failover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.mirrors.control import MirrorInfo as MirrorInfo
    from barnabas.client.mirrors.control import failover as failover
    from barnabas.client.mirrors.control import mirrors_of as mirrors_of
    from barnabas.client.mirrors.control import pause as pause
    from barnabas.client.mirrors.control import promote as promote
    from barnabas.client.mirrors.control import resume as resume
    from barnabas.client.mirrors.control import reverse as reverse
    from barnabas.client.mirrors.requests import LinkName as LinkName
    from barnabas.client.mirrors.requests import act_on_mirrors as act_on_mirrors
    from barnabas.client.mirrors.requests import alter_mirrors as alter_mirrors
    from barnabas.client.mirrors.requests import describe_mirrors as describe_mirrors
    from barnabas.client.mirrors.requests import fail_partitions as fail_partitions
    from barnabas.client.mirrors.requests import has_mirrors as has_mirrors
    from barnabas.client.mirrors.requests import raise_leader_epochs as raise_leader_epochs
else:
    __getattr__ = lazy_exports(__name__)
