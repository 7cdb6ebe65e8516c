"""A search process: reads ranges of offsets as columns, filters records and formats the hits."""
