"""Share group requests: ShareFetch and ShareAcknowledge of consumers, offsets for administration, and the
share coordinator's state APIs.
"""
