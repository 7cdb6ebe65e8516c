"""Parse values into typed columns: with Arrow's parsers where possible, else row by row."""
