"""Syslog as a source: UDP, TCP and TLS, RFC 3164 and RFC 5424."""
