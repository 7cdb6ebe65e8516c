"""Version of Barnabas, below everything that reports it. `pyproject.toml` has the same."""

__version__ = "0.1.0"
