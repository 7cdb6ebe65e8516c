"""SASL as the broker speaks it: exchanges without I/O, and which of them a listener offers.

exchange     what every mechanism is: tokens in, challenges out, a principal at the end
plain        PLAIN (RFC 4616), and the users that a JAAS text names
scram        SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802)
scram_users  credentials for it: those of users, and made-up ones for names that nobody has
token_users  delegation tokens for it
oauthbearer  OAUTHBEARER (RFC 7628); `security/jwt/verification`, `jwk` and `jwks` know tokens and keys
gssapi       GSSAPI (RFC 4752), with a library that is an extra; `security/authn/kerberos_names` has the rules for names
login        where a connection is on its way to being authenticated
"""
