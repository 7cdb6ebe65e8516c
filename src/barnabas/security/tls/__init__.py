"""TLS of clients and servers: key stores, contexts, and mapping of certificates to principals."""
