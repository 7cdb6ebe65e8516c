"""Login, and who may do what: ACLs, users and quotas of a cluster, the audit log, how the console is set up."""
