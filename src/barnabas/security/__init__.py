"""Client identity (`principal`, `context`, `authn`, `tls`), authorization (`authz`) and client quotas (`quotas`)."""
