"""Produce: append what clients send, and answer when it is as safe as they asked for.

handler.py     the request: append, then answer at once or later
appending.py   stage one: one batch after the other, in arrival order
admission.py   batches of a transaction: may they be appended?
delayed.py     stage two: waiting until the batches are safe
"""

from barnabas.handlers.produce.handler import produce

__all__ = ["produce"]
