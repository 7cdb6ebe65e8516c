"""Helpers that tests of several packages share. `waiting`: until a condition is true, with a limit and a reason."""
