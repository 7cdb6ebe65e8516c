"""Tests of the server: real sockets on the loopback interface, a small table of handlers."""
