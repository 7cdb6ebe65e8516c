"""A consumer of a share group (KIP-932): records are taken like jobs from a queue, and each is answered for."""
