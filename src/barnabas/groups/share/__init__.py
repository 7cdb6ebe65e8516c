"""Share groups (KIP-932): membership and assignment; the state of records is in `barnabas.share`."""
