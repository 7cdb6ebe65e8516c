"""What can go wrong with a topic as a table. The text says what to do."""

from __future__ import annotations


class TableError(Exception):
    """The topic cannot be read as asked."""


class SchemaError(TableError, ValueError):
    """This is no schema, or none that values can be read with."""


class BadValueError(TableError):
    """A value does not fit, and the caller wanted to be told."""


class DamagedFileError(TableError):
    """A file of a data folder is not what was written; the text names it."""
