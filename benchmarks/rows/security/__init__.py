"""Cost of security: TLS, logins, ACLs and quotas."""
