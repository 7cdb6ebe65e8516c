"""The console: pages, curves and search for a cluster, beside the brokers and never inside them."""
