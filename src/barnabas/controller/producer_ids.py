"""Blocks of producer ids: a broker takes a thousand at a time and hands them out without asking again."""

from __future__ import annotations

from barnabas.cluster.deltas import ProducerIdsAllocated
from barnabas.cluster.image import MetadataImage
from barnabas.controller.decision import Decided
from barnabas.controller.isr import check_broker_epoch

BLOCK_SIZE = 1000  # Kafka's own (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decided[range]:
    """Ids that nobody else has or will ever get, whatever becomes of this broker."""
    check_broker_epoch(image, broker_id, broker_epoch)
    block = range(image.next_producer_id, image.next_producer_id + BLOCK_SIZE)
    return [ProducerIdsAllocated(block.stop)], block
