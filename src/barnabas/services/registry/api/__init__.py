"""The registry over HTTP: `routes` is the table of endpoints and rights, `app` serves it."""
