"""Consumer groups, the protocol of KIP-848: the coordinator assigns, and members follow one by one."""
