"""Ports that stay free until whoever is to listen on them has started, and while it is away.

A JVM takes seconds to start, and a broker that was killed comes back to its port. From the range that the system takes
ports of outgoing connections from, somebody else may have got it by then; a client that tries again and again may even
be connected to itself.
"""

from __future__ import annotations

import errno
import random
import socket

_LASTING = range(15_000, 32_000)  # below Linux's ip_local_port_range, and those of other systems
_random = random.SystemRandom()  # tests seed the other one


def lasting_port(host: str = "127.0.0.1") -> int:
    """One that nobody listens on now."""
    while True:
        port = _random.choice(_LASTING)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise
        return port
