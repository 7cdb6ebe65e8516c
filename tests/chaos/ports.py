"""Ports that stay free while nobody listens on them.

A broker that was killed comes back to its port. In the range from which the system takes ports for outgoing connections
somebody else may have got it by then; a client that tries again and again may even be connected to itself.
"""

from __future__ import annotations

import random
import socket

_RANGE = range(15_000, 32_000)  # below Linux's ip_local_port_range


def lasting_port() -> int:
    while True:
        port = random.choice(_RANGE)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
