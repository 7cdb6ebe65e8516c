"""What security costs: TLS, logins, ACLs and quotas."""
