"""TLS and SASL of the client. `parse_security` reads settings, `Guard` applies them to connections.

settings        typed settings; secrets are masked in repr
parsing         settings by Kafka's names (Java client, librdkafka); references `${env:NAME}`, `${file:PATH:KEY}`
identity        SASL settings and JAAS
tls             TLS context, explanation of handshake errors
scram           SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802)
tokens          token sources of OAUTHBEARER
session         SASL exchange and re-authentication (KIP-368)
guard           PLAIN and OAUTHBEARER; state shared by the connections of a client
"""
