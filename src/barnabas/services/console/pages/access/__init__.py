"""Login and access control: ACLs, users and quotas of a cluster, the audit log, settings of the console."""
