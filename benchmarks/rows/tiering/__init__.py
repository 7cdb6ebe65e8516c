"""Costs and savings of tiered topics. The rows need a third-party object store (versitygw)."""
