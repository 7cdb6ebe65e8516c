"""Topics as tables on the command line."""
