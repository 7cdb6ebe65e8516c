"""One-minute demos of Barnabas: `make demo` runs pipelines, `make tour` shows the broker."""
