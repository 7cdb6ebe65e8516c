"""Fetch: hand out slices of segment files, or wait until there is something to hand out.

handler.py   the request: which session, from a consumer or from a follower
attempt.py   one attempt: read what is ready, answer if that is enough
reading.py   one partition of an attempt
delayed.py   waiting between attempts
throttled.py what was read and is not sent, because its consumer has used up its quota
"""

from barnabas.handlers.fetch.handler import fetch, fetch_in_turns
from barnabas.handlers.fetch.handler import withheld

__all__ = ["fetch", "fetch_in_turns", "withheld"]
