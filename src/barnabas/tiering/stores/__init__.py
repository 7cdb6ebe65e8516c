"""Object stores: what Barnabas asks of a bucket, and the kinds of stores that answer."""
