"""The transaction coordinator as a state machine on a log; no sockets, no waiting."""
