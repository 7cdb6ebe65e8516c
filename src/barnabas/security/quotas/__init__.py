"""Kafka's client quotas (KIP-13, KIP-124, KIP-599, KIP-612): limits per client, and throttle times beyond them.

interface.py       interface used by request handling
rates.py           Kafka's sampled rate and token bucket
filters.py         quota entities, and filters of DescribeClientQuotas
client_quotas.py   quota precedence, usage and throttle times of clients
address_quotas.py  connection rate per address
series.py          metrics
"""

from barnabas.security.quotas.interface import NO_QUOTAS, NoQuotas, QuotaKind, Quotas, Usage

__all__ = ["NO_QUOTAS", "NoQuotas", "QuotaKind", "Quotas", "Usage"]
