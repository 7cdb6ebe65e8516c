"""Former path of `barnabas.client.share`."""

from barnabas.client.share.consumer import ShareConsumer

__all__ = ["ShareConsumer"]
