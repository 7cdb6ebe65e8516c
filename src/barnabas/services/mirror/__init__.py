"""`barnabas mirror`: the topics of one cluster, or of several, in another one."""
