"""`barnabas doctor`: checks of the machine, the data folders, the network and a running cluster.

Each module returns `Finding`s: `machine`, `storage`, `network`, `cluster`. `commands` shows them.
"""
