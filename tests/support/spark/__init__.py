"""One Spark session for all tests, its jars, and reading with it; templates of the library (`workbench`)."""
