"""Programs that show Barnabas at work; not part of the wheel."""
