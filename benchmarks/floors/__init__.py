"""Limits of this machine and Python, measured without a broker."""
