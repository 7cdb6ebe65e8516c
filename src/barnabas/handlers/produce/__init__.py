"""Produce: append what clients send, and answer when it is as safe as they asked for.

handler.py     the request: append, then answer at once or later
known_heads.py most requests, without decoding them
appending.py   stage one: one batch after the other, in arrival order
admission.py   batches of a transaction: may they be appended?
delayed.py     stage two: waiting until the batches are safe
"""

from barnabas.handlers.produce.handler import produce
from barnabas.handlers.produce.known_heads import known_heads

__all__ = ["known_heads", "produce"]
