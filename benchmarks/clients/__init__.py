"""Programs that put load on a broker, each in a process of its own. They print one JSON object."""
