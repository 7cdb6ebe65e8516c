"""Errors of reading a topic as a table. Messages say what to do."""

from __future__ import annotations


class TableError(Exception):
    """The topic cannot be read as requested."""


class SchemaError(TableError, ValueError):
    """The schema is invalid, or values cannot be read with it."""


class BadValueError(TableError):
    """A value does not match the schema in mode FAILFAST."""


class DamagedFileError(TableError):
    """A file of a data folder is damaged; the message names it."""
