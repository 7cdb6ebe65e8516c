"""Transaction requests: `producers` for transactional producers, `offsets` for their commits, `markers` for
coordinators, `admin` for administration.
"""
