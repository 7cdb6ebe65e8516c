"""Values to typed columns: by Arrow's parsers where they can, row by row where they cannot."""
