"""Server side of SASL: mechanisms without I/O, and the login state of a connection.

login        exchange interface of all mechanisms, and the state machine of a connection's authentication
plain        PLAIN (RFC 4616), and the users listed in a JAAS configuration
scram        SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802)
scram_users  SCRAM credentials of users and delegation tokens, and decoys for unknown names
oauthbearer  OAUTHBEARER (RFC 7628); tokens and keys are in `security/jwt`
gssapi       GSSAPI (RFC 4752), with an optional library; name mapping is in `security/authn/kerberos_names`
"""
