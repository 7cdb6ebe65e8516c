"""Security requests: SASL authentication, ACLs, SCRAM users, delegation tokens and client quotas."""
