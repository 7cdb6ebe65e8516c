"""Records acquired by one process and acknowledged by another.

A leader releases a member's records when its connection closes. A member whose id begins with `lease-` keeps
them until the lock expires (Barnabas brokers only): the receipt of a record names the member, and any process with
the receipt can acknowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.share.acquired import AcknowledgeType, AcquiredRecord, Answers, Refusal
from barnabas.client.share.membership import new_member_id
from barnabas.client.share.session import ClientShareSession
from barnabas.common.types import TopicPartition

LEASE_PREFIX = "lease-"


class Receipt(NamedTuple):
    group: str
    member_id: str
    tp: TopicPartition
    offset: int

    def __str__(self) -> str:
        tp = self.tp
        return f"{self.group}:{self.member_id}:{tp.topic}:{tp.partition}:{self.offset}"


def new_lease() -> str:
    return LEASE_PREFIX + new_member_id()


def receipt_of(group: str, member_id: str, taken: AcquiredRecord) -> Receipt:
    return Receipt(group, member_id, taken.tp, taken.offset)


def parse_receipt(text: str) -> Receipt:
    """Parse a receipt of `take`; ValueError if invalid. Only the group id may contain colons."""
    parts = text.rsplit(":", 4)
    if len(parts) != 5 or not all(part.isdigit() for part in parts[3:]):
        raise ValueError(f"{text!r} is not a valid receipt; `barnabas queue take` prints one for each record")
    group, member_id, topic, partition, offset = parts
    return Receipt(group, member_id, TopicPartition(topic, int(partition)), int(offset))


async def answer_receipts(client: Client, answers: Mapping[Receipt, AcknowledgeType]) -> list[Refusal]:
    """Acknowledge records of another member; returns the rejected acknowledgements."""
    by_holder: dict[tuple[str, str, int], dict[TopicPartition, Answers]] = {}
    for receipt, answer in answers.items():
        leader = await client.leader(receipt.tp)
        held = by_holder.setdefault((receipt.group, receipt.member_id, leader), {})
        held.setdefault(receipt.tp, {})[receipt.offset] = answer
    refusals: list[Refusal] = []
    for (group, member_id, leader), value in by_holder.items():
        session = ClientShareSession(client, leader, group, member_id)
        await session.fetch(frozenset(), {}, 1, 0)  # replaces the session that acquired them
        refusals += await session.acknowledge(value)
    return refusals
