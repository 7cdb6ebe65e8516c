"""Metrics of the network: connections, authentication, TLS, memory for requests, and the event loop."""

from __future__ import annotations

from barnabas.metrics.registry import Metric, counter, gauge, metrics_among

# Connections
CONNECTIONS = gauge("kafka_server_socketservermetrics_connection_count", "Open connections.", "listener")
STRIMZI_CONNECTIONS = gauge(
    "kafka_server_socket_server_metrics_connection_count",
    "Open connections, under the name of Strimzi's rules.",
    "listener",
)
CONNECTIONS_OPENED = counter(
    "kafka_server_socketservermetrics_connection_creation_total", "Connections accepted.", "listener"
)
AUTHENTICATED = counter(
    "kafka_server_socketservermetrics_successful_authentication_total",
    "Successful SASL authentications.",
    "listener",
)
NOT_AUTHENTICATED = counter(
    "kafka_server_socketservermetrics_failed_authentication_total",
    "Failed SASL authentications.",
    "listener",
)
AUTHENTICATED_AGAIN = counter(
    "kafka_server_socketservermetrics_successful_reauthentication_total",
    "Successful SASL re-authentications (KIP-368).",
    "listener",
)
NOT_AUTHENTICATED_AGAIN = counter(
    "kafka_server_socketservermetrics_failed_reauthentication_total",
    "Failed SASL re-authentications.",
    "listener",
)
CONNECTIONS_REFUSED = counter(
    "barnabas_connections_refused_total",
    "Connections closed immediately because a limit was reached.",
    "listener",
)
CONNECTIONS_THROTTLED = counter(
    "barnabas_connections_throttled_total",
    "Connections delayed or refused because of a connection rate limit: of the broker (max.connection.creation.rate), "
    "of the listener, or of the address (connection_creation_rate).",
    "listener",
    "limit",
)
CONNECTIONS_CLOSED = counter(
    "barnabas_connections_closed_total",
    "Connections closed by the broker: idle, no request (none was ever sent), slow request, evicted (it used memory "
    "that others waited for), overfull (too much was sent at once), length (invalid length of a request), not "
    "authenticated (in time), kept for brokers (a client used a connection reserved for brokers), truncated (records "
    "being sent were truncated), credential (changed or deleted), unanswered (a bug of the broker).",
    "reason",
)
TLS_HANDSHAKES = counter(
    "barnabas_tls_handshakes_total",
    "TLS handshakes by outcome: done, failed, abandoned (the connection was closed during the handshake).",
    "outcome",
)
TLS_EXPIRY = gauge(
    "barnabas_tls_certificate_expiry_seconds",
    "Expiry time of a listener's certificate, in seconds since 1970.",
    "listener",
)
MONITORING_CUT_OFF = counter(
    "barnabas_monitoring_clients_cut_off_total",
    "Connections to the metrics port closed because of a timeout, or replaced by newer ones.",
)
REFUSED_AS_BROKER = counter(
    "barnabas_broker_requests_refused_total",
    "Requests reserved for brokers, refused because they arrived on a client listener.",
    "request",
)

# Memory and the event loop
MEMORY_USED = gauge(
    "kafka_network_socketserver_memorypoolused", "Bytes of memory used by requests being received."
)
MEMORY_AVAILABLE = gauge(
    "kafka_network_socketserver_memorypoolavailable", "Unused bytes of queued.max.request.bytes."
)
MEMORY_WAITING = gauge(
    "barnabas_requests_waiting_for_memory",
    "Requests waiting for memory before they are received.",
)
NETWORK_IDLE = gauge(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "Fraction of time, 0 to 1, in which the event loop was idle.",
)
HANDLER_IDLE = gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "The same value: one event loop does the work of both of Kafka's thread pools.",
)
LOOP_LAG = Metric(
    "histogram",
    "barnabas_loop_lag_seconds",
    "Delay of timers on the event loop, which adds to the latency of every request.",
)
LOOP_LAG_MAX = gauge("barnabas_loop_lag_max_seconds", "Maximum of this delay in the last minute.")

CATALOGUE = metrics_among(globals())
