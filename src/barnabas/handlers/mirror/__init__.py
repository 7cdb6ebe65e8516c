"""Mirror topics: `topics` creates, describes and settles them, `appends` appends batches from the source
cluster.
"""
