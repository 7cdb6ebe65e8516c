"""The broker as a server: sockets, requests in, responses out, and the handlers between them."""
