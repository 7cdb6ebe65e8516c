"""Authentication: SASL mechanisms, credentials, LDAP, JAAS files, delegation tokens."""
