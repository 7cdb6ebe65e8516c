"""Share groups' side of a partition (KIP-932): who has which record, how often it was delivered, what is done."""
