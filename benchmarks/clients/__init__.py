"""Load generators, each run as a separate process. They print one JSON object."""
