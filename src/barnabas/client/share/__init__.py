"""Share group consumer (KIP-932): records are acquired like jobs from a queue and acknowledged one by one."""
