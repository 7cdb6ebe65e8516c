"""A record of `__consumer_offsets` that only Barnabas writes: what a streams topology looks like (KIP-1331).

Kafka leaves its storage to a plugin. Its coordinators skip types of records that they do not know, and so do ours.
"""

from __future__ import annotations

from barnabas.protocol.messages.streams import TopologyDescription
from barnabas.protocol.schema import Message, int32, string, structure

TYPE = 10_093
"""Far behind Kafka's types, which are counted from 0; 93 is the key of the request that brings it."""


class StreamsGroupTopologyDescriptionKey(Message, api_key=TYPE, versions="0"):
    group_id: str = string()


class StreamsGroupTopologyDescriptionValue(Message, api_key=TYPE, versions="0", flexible="0+"):
    topology_epoch: int = int32()
    topology_description: TopologyDescription = structure(TopologyDescription)
