"""Recovery of logs at startup, and the functions behind `barnabas log verify` and `barnabas log repair`."""
