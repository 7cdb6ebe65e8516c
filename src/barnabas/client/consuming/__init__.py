"""Group consumer: membership by the classic or the KIP-848 protocol, and committed positions."""
