"""Who may do what, and how much of it: ACLs, SCRAM users, delegation tokens and client quotas of a cluster."""
