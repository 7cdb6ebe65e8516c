"""Settings of authentication, TLS, authorization, quotas and the audit log."""
