"""Requests of transactional producers, of their coordinators, and of administrators."""
