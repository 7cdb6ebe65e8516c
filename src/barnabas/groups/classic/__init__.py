"""Classic groups: membership by JoinGroup and SyncGroup, assignment by the leader."""
