"""Search process: reads offset ranges as columns, filters records and formats the hits."""
