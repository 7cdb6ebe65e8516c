"""What the console knows of a cluster: asked for in the background, so that no page waits for a broker."""
