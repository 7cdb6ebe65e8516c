"""HTTP interface of the registry: `routes` is the table of endpoints and rights, `app` serves it."""
