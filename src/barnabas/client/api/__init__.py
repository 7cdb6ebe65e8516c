"""Python client for applications: producer, consumer, share consumer and administration, blocking and for asyncio.

`barnabas` exports these names: `from barnabas import Producer, AsyncProducer`. docs/python-client.md is its guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.api.administration import Acl as Acl
    from barnabas.client.api.administration import AsyncAdmin as AsyncAdmin
    from barnabas.client.api.administration import ConfigSetting as ConfigSetting
    from barnabas.client.api.administration import GroupListing as GroupListing
    from barnabas.client.api.blocking_admin import BlockingAdmin as BlockingAdmin
    from barnabas.client.api.blocking_consumer import BlockingConsumer as BlockingConsumer
    from barnabas.client.api.blocking_producer import BlockingProducer as BlockingProducer
    from barnabas.client.api.blocking_producer import DeliveryFuture as DeliveryFuture
    from barnabas.client.api.consuming import AsyncConsumer as AsyncConsumer
    from barnabas.client.api.errors import AcknowledgeError as AcknowledgeError
    from barnabas.client.api.errors import CommitFailedError as CommitFailedError
    from barnabas.client.api.errors import DeliveryError as DeliveryError
    from barnabas.client.api.errors import NoOffsetError as NoOffsetError
    from barnabas.client.api.errors import SerializationError as SerializationError
    from barnabas.client.api.fetched import ConsumerRecord as ConsumerRecord
    from barnabas.client.api.producing import AsyncDelivery as AsyncDelivery
    from barnabas.client.api.producing import AsyncProducer as AsyncProducer
    from barnabas.client.api.producing import BatchMetadata as BatchMetadata
    from barnabas.client.api.producing import ProducerRecord as ProducerRecord
    from barnabas.client.api.producing import RecordMetadata as RecordMetadata
    from barnabas.client.api.sharing import AsyncShareConsumer as AsyncShareConsumer
    from barnabas.client.api.sharing import BlockingShareConsumer as BlockingShareConsumer
    from barnabas.client.api.sharing import ShareRecord as ShareRecord
else:
    __getattr__ = lazy_exports(__name__)
