"""Produce: append batches, and respond when they are as durable as the client requires.

handler.py     the request: append, then respond at once or later
fast_path.py fast path of most requests, without decoding
appending.py   stage one: append batches in arrival order
admission.py   admission of transactional batches
delayed.py     stage two: waiting until the batches are durable
"""

from barnabas.handlers.produce.fast_path import known_heads
from barnabas.handlers.produce.handler import produce

__all__ = ["known_heads", "produce"]
