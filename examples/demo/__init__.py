"""What Barnabas can do, shown in a minute: `make demo` runs pipelines, `make tour` looks at the broker."""
