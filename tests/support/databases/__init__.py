"""Real databases as processes, each with its data in a folder that is removed afterwards."""
