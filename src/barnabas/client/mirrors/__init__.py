"""Topics that a mirror copies into this cluster: how they stand, and what a person does to them."""
