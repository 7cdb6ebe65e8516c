"""Requests about ACLs, SCRAM users, delegation tokens and client quotas."""
