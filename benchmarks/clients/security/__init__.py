"""Load generators for TLS handshakes and logins."""
