"""The part of a log that is in remote segments, as the log itself sees it (KIP-405).

checkpoint    what this disk remembers of the remote part
retention     total retention over both tiers, and local retention
copying       what a copier needs of the next sealed segment
starting      a log that begins at the tiered end
markers       ends of transactions whose markers are lost with the tail
"""
