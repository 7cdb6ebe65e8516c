"""Administration of access: ACLs, SCRAM users, delegation tokens and client quotas of a cluster."""
