"""Group requests: one module per type of group, `offsets` for commits and fetches, `admin` for
administration.
"""
