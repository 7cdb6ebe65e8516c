"""Tests of the command line: most through typer's runner, against one embedded broker."""
