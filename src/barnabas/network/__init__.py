"""Sockets to requests. SocketServer owns the listeners, the connections and the limits that protect the
broker from its clients; Connection cuts bytes into requests and sends responses. `requests/` takes a
request from its frame to its handler and back.
"""
