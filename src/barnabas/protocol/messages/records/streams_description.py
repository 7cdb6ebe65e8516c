"""Record of `__consumer_offsets` with the description of a streams topology (KIP-1331), specific to Barnabas.

Kafka delegates the storage of descriptions to a plugin. Coordinators of Kafka and Barnabas skip unknown record types.
"""

from __future__ import annotations

from barnabas.protocol.messages.streams import TopologyDescription
from barnabas.protocol.schema import Message, int32, string, structure

TYPE = 10_093
"""Record type, well above Kafka's, which count from 0; 93 is the API key of the corresponding request."""


class StreamsGroupTopologyDescriptionKey(Message, api_key=TYPE, versions="0"):
    group_id: str = string()


class StreamsGroupTopologyDescriptionValue(Message, api_key=TYPE, versions="0", flexible="0+"):
    topology_epoch: int = int32()
    topology_description: TopologyDescription = structure(TopologyDescription)
