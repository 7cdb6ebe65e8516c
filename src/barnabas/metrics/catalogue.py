"""All metrics of the broker: names, labels and help texts. Those of sockets, tiered storage and
kafka_exporter are in `network_catalogue`, `tiering_catalogue` and `exporter_catalogue`.

Names that begin with `kafka_` are those of Kafka's own metrics as the JMX exporter's usual rules write them,
and those of kafka_exporter, so that stock dashboards work unchanged. Metrics that only Barnabas has begin
with `barnabas_`.
"""

from __future__ import annotations

from barnabas.metrics import exporter_catalogue, network_catalogue, tiering_catalogue
from barnabas.metrics.registry import Metric, counter, gauge, metrics_among

_PARTITION = ("topic", "partition")

# Requests
REQUESTS = counter("kafka_network_requestmetrics_requests_total", "Requests received.", "request", "version")
REQUEST_SECONDS = Metric(
    "histogram", "barnabas_request_seconds", "Time from receiving a request to its response.", ("request",)
)
REQUEST_MILLISECONDS = Metric(
    "summary",
    "kafka_network_requestmetrics_totaltimems",
    "Time from receiving a request to its response in milliseconds; quantiles since the start, estimated.",
    ("request", "quantile"),
)
HEAVY_REQUESTS = counter(
    "barnabas_heavy_requests_total",
    "Requests with many elements or bytes, which are processed in slices of the event loop.",
    "request",
)
HEAVY_REQUESTS_WAITING = gauge(
    "barnabas_heavy_requests_waiting",
    "Heavy requests and large responses that wait for others to finish (barnabas.heavy.requests.at.once).",
)
REFUSED_REQUESTS = counter(
    "barnabas_refused_requests_total",
    "Requests that exceeded a limit: elements (barnabas.request.max.elements, "
    "barnabas.undivided.request.max.elements), bytes (barnabas.heavy.request.max.bytes) or response "
    "(barnabas.response.max.bytes).",
    "request",
    "limit",
)

# Client quotas, only of clients with a quota. Empty labels are omitted.
_QUOTA = ("resource", "user", "clientId")
QUOTA_BYTE_RATE = gauge(
    "kafka_server_quota_byte_rate",
    "Bytes per second of a client (resource Produce or Fetch).",
    *_QUOTA,
)
QUOTA_REQUEST_TIME = gauge(
    "kafka_server_quota_request_time",
    "Percentage of the event loop's time used by a client's requests (resource Request).",
    *_QUOTA,
)
QUOTA_MUTATION_RATE = gauge(
    "kafka_server_quota_mutation_rate",
    "Partitions per second that a client creates and deletes (resource ControllerMutation).",
    *_QUOTA,
)
QUOTA_TOKENS = gauge(
    "kafka_server_quota_tokens",
    "Partitions that a client may create or delete without throttling; negative while it is throttled.",
    *_QUOTA,
)
QUOTA_THROTTLE_TIME = gauge(
    "kafka_server_quota_throttle_time",
    "Average throttle time of a client in milliseconds, over the last minute.",
    *_QUOTA,
)

# Topics; each also has a sample without a topic, the sum over all
BYTES_IN = counter(
    "kafka_server_brokertopicmetrics_bytesin_total", "Bytes of batches received from producers.", "topic"
)
BYTES_OUT = counter(
    "kafka_server_brokertopicmetrics_bytesout_total", "Bytes of batches sent to consumers.", "topic"
)
MESSAGES_IN = counter(
    "kafka_server_brokertopicmetrics_messagesin_total", "Records received from producers.", "topic"
)
PRODUCES = counter(
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "Produce requests, counted once for each of their partitions.",
    "topic",
)
FETCHES = counter(
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "Fetch requests, counted once for each of their partitions.",
    "topic",
)
FAILED_PRODUCES = counter(
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "Partitions of produce requests that ended in an error.",
    "topic",
)
FAILED_FETCHES = counter(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "Partitions of fetch requests that ended in an error.",
    "topic",
)

# Batches of producers
REFUSED_BATCHES = counter(
    "barnabas_batches_refused_total",
    "Invalid batches of producers that were refused: INVALID_RECORD, INVALID_TIMESTAMP, CORRUPT_MESSAGE, "
    "MESSAGE_TOO_LARGE.",
    "error",
)
INSPECTED_BATCHES = counter(
    "barnabas_batches_inspected_total",
    "Batches decompressed and validated on a thread, because it would block the event loop.",
)

# Replicas on this broker
PARTITION_COUNT = gauge("kafka_server_replicamanager_partitioncount", "Replicas on this broker.")
LEADER_COUNT = gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.")
UNDER_REPLICATED = gauge(
    "kafka_server_replicamanager_underreplicatedpartitions", "Led partitions whose ISR lacks a replica."
)
UNDER_MIN_ISR = gauge(
    "kafka_server_replicamanager_underminisrpartitioncount",
    "Led partitions whose ISR is smaller than min.insync.replicas.",
)
AT_MIN_ISR = gauge(
    "kafka_server_replicamanager_atminisrpartitioncount",
    "Led partitions whose ISR is exactly min.insync.replicas: without one more replica acks=all is refused.",
)
PARTITION_UNDER_REPLICATED = gauge(
    "kafka_cluster_partition_underreplicated", "1 when the ISR lacks a replica.", *_PARTITION
)
PARTITION_UNDER_MIN_ISR = gauge(
    "kafka_cluster_partition_underminisr", "1 when the ISR is smaller than min.insync.replicas.", *_PARTITION
)
PARTITION_AT_MIN_ISR = gauge(
    "kafka_cluster_partition_atminisr", "1 when the ISR is exactly min.insync.replicas.", *_PARTITION
)
PARTITION_REPLICAS_COUNT = gauge(
    "kafka_cluster_partition_replicascount", "Replicas of a partition that this broker leads.", *_PARTITION
)
LOG_SIZE = gauge("kafka_log_log_size", "Bytes of a partition's log on this broker.", *_PARTITION)
LOG_START = gauge("kafka_log_log_logstartoffset", "First offset of a partition's log.", *_PARTITION)
LOG_END = gauge("kafka_log_log_logendoffset", "Offset of the next record of a partition.", *_PARTITION)
LOG_SEGMENTS = gauge("kafka_log_log_numlogsegments", "Segments of a partition's log.", *_PARTITION)
OFFLINE_DIRS = gauge("kafka_log_logmanager_offlinelogdirectorycount", "Log dirs that failed.")

# Groups that this broker coordinates: Kafka's GroupMetadataManager counts classic ones, group-coordinator-metrics all
_MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
_COORDINATOR = "kafka_server_group_coordinator_metrics_"
CLASSIC_GROUPS = gauge(f"{_MANAGER}numgroups", "Classic groups that this broker coordinates.")
CLASSIC_GROUPS_PREPARING = gauge(
    f"{_MANAGER}numgroupspreparingrebalance", "Classic groups waiting for their members to join."
)
CLASSIC_GROUPS_COMPLETING = gauge(
    f"{_MANAGER}numgroupscompletingrebalance", "Classic groups waiting for the assignment of their leader."
)
CLASSIC_GROUPS_STABLE = gauge(f"{_MANAGER}numgroupsstable", "Stable classic groups.")
CLASSIC_GROUPS_DEAD = gauge(f"{_MANAGER}numgroupsdead", "Classic groups being removed.")
CLASSIC_GROUPS_EMPTY = gauge(f"{_MANAGER}numgroupsempty", "Classic groups without members.")
GROUP_OFFSETS = gauge(f"{_MANAGER}numoffsets", "Committed offsets, of groups of every type.")
GROUPS = gauge(
    f"{_COORDINATOR}group_count",
    "Groups that this broker coordinates: classic, consumer, share, streams.",
    "protocol",
)
CONSUMER_GROUPS = gauge(
    f"{_COORDINATOR}consumer_group_count", "Groups of the consumer protocol in each state.", "state"
)
SHARE_GROUPS = gauge(f"{_COORDINATOR}share_group_count", "Share groups in each state.", "state")
STREAMS_GROUPS = gauge(f"{_COORDINATOR}streams_group_count", "Streams groups in each state.", "state")

# State that clients create, and its limits
BOUNDED_STATE = gauge(
    "barnabas_bounded_state",
    "State created by clients and bounded by a setting: groups, members, member and offset bytes, partitions of "
    "sessions, producer ids.",
    "what",
)
STATE_BOUNDS = gauge("barnabas_bounded_state_limit", "Limit of that state.", "what")
STATE_REFUSED = counter(
    "barnabas_bounded_state_refused_total",
    "Requests refused, or entries evicted, because the limit was reached.",
    "what",
)

# Compaction
MAX_DIRTY_PERCENT = gauge(
    "kafka_log_logcleanermanager_max_dirty_percent",
    "Highest percentage of uncompacted bytes of any log.",
)
UNCLEANABLE_PARTITIONS = gauge(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    "Partitions whose last compaction failed; see the broker's log for the reason.",
    "logdirectory",
)
UNCLEANABLE_BYTES = gauge(
    "kafka_log_logcleanermanager_uncleanable_bytes", "Bytes of those partitions.", "logdirectory"
)
CLEAN_SECONDS = gauge("kafka_log_logcleaner_max_clean_time_secs", "Duration of the last compaction.")
CLEAN_RECOPY = gauge(
    "kafka_log_logcleaner_cleaner_recopy_percent", "Percentage of bytes that the last compaction kept."
)
CLEAN_MEMORY = gauge(
    "kafka_log_logcleaner_max_buffer_utilization_percent",
    "Percentage of log.cleaner.dedupe.buffer.size used by the keys of the last compaction.",
)
COMPACTIONS = counter("barnabas_compactions_total", "Completed compactions of a log.")
COMPACTION_READ = counter("barnabas_compaction_read_bytes_total", "Bytes of segments that were compacted.")
COMPACTION_REMOVED = counter("barnabas_compaction_removed_bytes_total", "Bytes that compaction removed.")

# The cluster, on the controller; 0 on other brokers
ACTIVE_CONTROLLER = gauge(
    "kafka_controller_kafkacontroller_activecontrollercount", "1 on the broker that is the controller."
)
OFFLINE_PARTITIONS = gauge(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "Partitions of the cluster without a leader, on the controller; on other brokers those on failed log dirs.",
)
TOPIC_COUNT = gauge(
    "kafka_controller_kafkacontroller_globaltopiccount",
    "Topics of the cluster, on the controller; 0 on other brokers, as are the following metrics.",
)
ALL_PARTITIONS = gauge("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions of the cluster.")
ACTIVE_BROKERS = gauge(
    "kafka_controller_kafkacontroller_activebrokercount", "Registered brokers that are not fenced."
)
FENCED_BROKERS = gauge("kafka_controller_kafkacontroller_fencedbrokercount", "Fenced brokers.")
PREFERRED_IMBALANCE = gauge(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "Partitions of the cluster whose leader is not the preferred replica.",
)
UNCLEAN_ELECTIONS = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Elections of a leader that may lack acknowledged records.",
)

CLOCK_JUMP = gauge(
    "barnabas_clock_jump_seconds",
    "Forward step of the wall clock relative to the time used for expiry; normally 0.",
)

# Transactions that this broker coordinates
TRANSACTIONAL_IDS = gauge("barnabas_transactional_ids", "Transactional ids on this broker's coordinator.")
TRANSACTIONS_WITHOUT_TIMEOUT = gauge(
    "barnabas_transactions_without_timeout", "Open transactions without a timeout (two-phase commit)."
)
OLDEST_WITHOUT_TIMEOUT = gauge(
    "barnabas_transactions_without_timeout_oldest_seconds", "Age of the oldest of them."
)
TRANSACTIONS_REFUSED = counter(
    "barnabas_transactions_refused_total",
    "Requests of transactional producers refused because a limit was reached.",
)

# Text sent by clients
LOG_LINES_LEFT_OUT = counter(
    "barnabas_log_lines_left_out_total",
    "Lines not written to the broker's log because of the rate limit of their kind (barnabas.log.lines.max).",
)
LOG_LINES_CUT = counter(
    "barnabas_log_lines_cut_total",
    "Lines of the broker's log truncated in the middle (barnabas.log.line.max.characters).",
)
PATTERNS_REFUSED = counter(
    "barnabas_patterns_refused_total",
    "Regular expressions of clients that were refused: not RE2 syntax, or beyond barnabas.regex.max.characters, "
    "barnabas.regex.max.bytes or barnabas.regex.max.instructions.",
)

# The audit log, if enabled
AUDIT_EVENTS = counter("barnabas_audit_events_total", "Events written to the audit log.")
AUDIT_LOST = counter(
    "barnabas_audit_events_lost_total",
    "Events not written, because the queue was full or a write failed.",
)

# The process
PROCESS_UP = gauge(
    "barnabas_process_up", "1 if a broker process of this node answers, otherwise 0.", "broker"
)
INFO = gauge("barnabas_info", "Always 1; the labels identify the broker.", "version", "node_id", "cluster_id")
START_TIME = gauge("process_start_time_seconds", "Start time of the broker, in seconds since 1970.")
CPU_SECONDS = counter("process_cpu_seconds_total", "CPU time of the process.")
RESIDENT_MEMORY = gauge("process_resident_memory_bytes", "Resident memory of the process.")
OPEN_FILES = gauge("process_open_fds", "Open file descriptors.")
# Gauges in Kafka, although they only grow; no samples on systems that do not count them.
DISK_READ = gauge(
    "kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes read from disks by the process, on Linux."
)
DISK_WRITE = gauge(
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "Bytes written to disks by the process, on Linux.",
)

# Mirror topics, on their leaders
MIRROR_PARTITIONS = gauge(
    "barnabas_mirror_led_partitions", "Partitions of mirror topics that this broker leads, by state.", "state"
)
MIRROR_FAILED = gauge(
    "barnabas_mirror_failed_partitions",
    "FAILED partitions of mirror topics in the cluster, for which mirroring has stopped until an operator intervenes. "
    "Alert if it is not 0.",
)
MIRROR_LAG = gauge(
    "barnabas_mirror_led_lag_offsets",
    "Offsets by which this leader lags behind the source, as last reported by the mirror.",
    "topic",
    "partition",
)

CATALOGUE = (
    *metrics_among(globals()),
    *network_catalogue.CATALOGUE,
    *tiering_catalogue.CATALOGUE,
    *exporter_catalogue.CATALOGUE,
)
"""All metrics, for the documentation and for the test that every metric is documented."""
