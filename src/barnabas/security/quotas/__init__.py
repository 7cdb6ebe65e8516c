"""Kafka's client quotas (KIP-13, KIP-124, KIP-599, KIP-612): limits per client, and throttle times beyond them.

interface.py       interface used by request handling
rates.py           Kafka's sampled rate and token bucket
filters.py         quota entities, and filters of DescribeClientQuotas
client_quotas.py   quota precedence, usage and throttle times of clients
address_quotas.py  connection rate per address
series.py          metrics
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.quotas.address_quotas import AddressQuotas as AddressQuotas
    from barnabas.security.quotas.client_quotas import ClientQuotas as ClientQuotas
    from barnabas.security.quotas.client_quotas import QuotaLimits as QuotaLimits
    from barnabas.security.quotas.interface import NO_QUOTAS as NO_QUOTAS
    from barnabas.security.quotas.interface import NoQuotas as NoQuotas
    from barnabas.security.quotas.interface import QuotaKind as QuotaKind
    from barnabas.security.quotas.interface import Quotas as Quotas
    from barnabas.security.quotas.interface import Usage as Usage
    from barnabas.security.quotas.rates import RecentAverage as RecentAverage
    from barnabas.security.quotas.rates import RecentMaximum as RecentMaximum
    from barnabas.security.quotas.rates import SampledRate as SampledRate
    from barnabas.security.quotas.rates import Windows as Windows
    from barnabas.security.quotas.series import declare_quota_metrics as declare_quota_metrics
else:
    __getattr__ = lazy_exports(__name__)
