"""TLS and SASL of the client: who the broker is, who we are, and that nobody else reads along.

settings        what is wanted, as typed values; secrets that do not show themselves
parsing         Kafka's names for it, those of the Java client and those of librdkafka
references      values that stand elsewhere: `${env:NAME}`, `${file:PATH:KEY}`, for who may use them
stores          keys and certificates: PEM and PKCS12
tls             a context for connections, and what a failed handshake means
scram           SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802)
mechanisms      PLAIN and OAUTHBEARER; which mechanism makes which exchange
tokens          where OAUTHBEARER gets its token
authentication  the exchange, as requests to a broker
session         how long the broker knows it
guard           what all connections of a client share of it
"""
