"""The cluster as a whole: brokers, what moves between them, what hangs, what was given up, what is copied elsewhere."""
