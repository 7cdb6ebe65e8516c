"""Fetch: return slices of segment files, or wait for data.

handler.py     requests of consumers and followers, and their sessions
attempt.py     one attempt: a pass over the partitions, and the response if that is enough
reader.py      one partition of a pass
delayed.py     waiting between attempts
"""

from barnabas.handlers.fetch.handler import fetch, fetch_in_turns, withheld

__all__ = ["fetch", "fetch_in_turns", "withheld"]
