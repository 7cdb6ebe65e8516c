"""Application logs as they are written: lines, some of which belong together, with things that must not be kept."""
