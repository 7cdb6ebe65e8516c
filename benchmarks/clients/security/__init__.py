"""Programs that shake hands and log in, again and again."""
