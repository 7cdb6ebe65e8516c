"""Compatibility rules between a reader's and a writer's schema: one module per format."""
