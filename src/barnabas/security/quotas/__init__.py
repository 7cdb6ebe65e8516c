"""Kafka's client quotas (KIP-13, KIP-124, KIP-599, KIP-612): how much a client may take, and how long it waits then.

interface.py       what the stages of a request ask
rates.py           Kafka's sample windows and token bucket
precedence.py      which quota a client has, and with whom it shares it
client_quotas.py   what clients have used, and their waits
address_quotas.py  connections of one address
series.py          metrics
"""

from barnabas.security.quotas.interface import NO_QUOTAS, Kind, NoQuotas, Quotas, Usage

__all__ = ["NO_QUOTAS", "Kind", "NoQuotas", "Quotas", "Usage"]
