"""Users, ACLs, quotas and tokens."""
