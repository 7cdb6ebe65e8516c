"""Sockets, listeners and connections; `requests/`: a request from its frame to its answer."""
