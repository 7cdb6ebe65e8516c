"""`barnabas dev`: a broker, a schema registry, a console and sample data for development, with one command."""
