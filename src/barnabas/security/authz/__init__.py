"""Authorization: ACLs, the standard authorizer, the audit log."""
