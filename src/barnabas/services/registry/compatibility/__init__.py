"""May readers of one schema read what was written with another? One module of rules for each language."""
