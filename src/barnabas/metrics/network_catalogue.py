"""The metrics of sockets: connections, authentication, TLS, memory for requests, and the loop that serves them."""

from __future__ import annotations

from barnabas.metrics.registry import Metric, counter, gauge, metrics_among

# Connections
CONNECTIONS = gauge("kafka_server_socketservermetrics_connection_count", "Open connections.", "listener")
STRIMZI_CONNECTIONS = gauge(
    "kafka_server_socket_server_metrics_connection_count",
    "Open connections, under the name that Strimzi's rules give them.",
    "listener",
)
CONNECTIONS_OPENED = counter(
    "kafka_server_socketservermetrics_connection_creation_total", "Connections accepted.", "listener"
)
AUTHENTICATED = counter(
    "kafka_server_socketservermetrics_successful_authentication_total",
    "Clients that have authenticated with SASL.",
    "listener",
)
NOT_AUTHENTICATED = counter(
    "kafka_server_socketservermetrics_failed_authentication_total",
    "Clients that failed to authenticate with SASL.",
    "listener",
)
AUTHENTICATED_AGAIN = counter(
    "kafka_server_socketservermetrics_successful_reauthentication_total",
    "Clients that have authenticated again over the same connection (KIP-368).",
    "listener",
)
NOT_AUTHENTICATED_AGAIN = counter(
    "kafka_server_socketservermetrics_failed_reauthentication_total",
    "Clients that failed to authenticate again over the same connection.",
    "listener",
)
CONNECTIONS_REFUSED = counter(
    "barnabas_connections_refused_total",
    "Connections closed at once, because a limit was reached.",
    "listener",
)
CONNECTIONS_THROTTLED = counter(
    "barnabas_connections_throttled_total",
    "Connections that had to wait, or were kept away, because too many were opened in a second: on the broker "
    "(max.connection.creation.rate), on the listener, or from one address (connection_creation_rate).",
    "listener",
    "limit",
)
CONNECTIONS_CLOSED = counter(
    "barnabas_connections_closed_total",
    "Connections that the broker closed: idle, no request (none ever came), slow request, evicted (it held memory that "
    "others waited for), overfull (far too much was sent at once), length (of a request, which is not allowed), not "
    "authenticated (in time), kept for brokers (a client had a place of theirs), truncated (records that it was being "
    "sent), credential (changed or deleted), unanswered (a mistake of the broker's).",
    "reason",
)
TLS_HANDSHAKES = counter(
    "barnabas_tls_handshakes_total",
    "TLS handshakes by outcome: done, failed, abandoned (the connection was closed before the end).",
    "outcome",
)
TLS_EXPIRY = gauge(
    "barnabas_tls_certificate_expiry_seconds",
    "When the certificate of a listener expires, in seconds since 1970.",
    "listener",
)
MONITORING_CUT_OFF = counter(
    "barnabas_monitoring_clients_cut_off_total",
    "Clients of the port for metrics and health that did not take their answer in time, or gave way to others.",
)
REFUSED_AS_BROKER = counter(
    "barnabas_broker_requests_refused_total",
    "Requests that only brokers may send, refused because they came where clients connect.",
    "request",
)

# Memory and the loop
MEMORY_USED = gauge(
    "kafka_network_socketserver_memorypoolused", "Bytes of memory that requests being received take."
)
MEMORY_AVAILABLE = gauge(
    "kafka_network_socketserver_memorypoolavailable", "Bytes left of queued.max.request.bytes."
)
MEMORY_WAITING = gauge(
    "barnabas_requests_waiting_for_memory",
    "Requests that wait for memory before they are received.",
)
NETWORK_IDLE = gauge(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "Share of time, 0 to 1, in which the loop had nothing to do.",
)
HANDLER_IDLE = gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "The same number: one loop does the work of both of Kafka's thread pools.",
)
LOOP_LAG = Metric(
    "histogram",
    "barnabas_loop_lag_seconds",
    "How late the loop called a timer: what every request waits for.",
)
LOOP_LAG_MAX = gauge("barnabas_loop_lag_max_seconds", "The longest such delay in the last minute.")

CATALOGUE = metrics_among(globals())
