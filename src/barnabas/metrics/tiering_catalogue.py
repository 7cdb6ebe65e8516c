"""Metrics of tiered storage: copies, reads and deletions of remote segments, and their cache."""

from __future__ import annotations

from barnabas.metrics.registry import Metric, counter, gauge, metrics_among

# By topic
REMOTE_FETCHES = counter(
    "kafka_server_brokertopicmetrics_remotefetchrequests_total", "Reads of remote segments.", "topic"
)
REMOTE_FETCH_BYTES = counter(
    "kafka_server_brokertopicmetrics_remotefetchbytes_total",
    "Bytes of remote segments sent to consumers.",
    "topic",
)
FAILED_REMOTE_FETCHES = counter(
    "kafka_server_brokertopicmetrics_remotefetcherrors_total",
    "Failed reads of remote segments.",
    "topic",
)
REMOTE_COPIES = counter(
    "kafka_server_brokertopicmetrics_remotecopyrequests_total",
    "Segments copied to the object store.",
    "topic",
)
REMOTE_COPY_BYTES = counter(
    "kafka_server_brokertopicmetrics_remotecopybytes_total", "Bytes of those segments.", "topic"
)
FAILED_REMOTE_COPIES = counter(
    "kafka_server_brokertopicmetrics_remotecopyerrors_total",
    "Failed attempts to copy a segment to the object store.",
    "topic",
)
REMOTE_DELETES = counter(
    "kafka_server_brokertopicmetrics_remotedeleterequests_total",
    "Remote segments deleted from the object store.",
    "topic",
)
FAILED_REMOTE_DELETES = counter(
    "kafka_server_brokertopicmetrics_remotedeleteerrors_total",
    "Failed attempts to delete remote segments.",
    "topic",
)
REMOTE_COPY_LAG_BYTES = gauge(
    "kafka_server_brokertopicmetrics_remotecopylagbytes",
    "Bytes of closed segments that are not copied yet.",
    "topic",
)
REMOTE_COPY_LAG_SEGMENTS = gauge(
    "kafka_server_brokertopicmetrics_remotecopylagsegments",
    "Closed segments that are not copied yet.",
    "topic",
)
REMOTE_DELETE_LAG_BYTES = gauge(
    "kafka_server_brokertopicmetrics_remotedeletelagbytes",
    "Bytes of remote segments that are expired or replaced, but not deleted yet.",
    "topic",
)
REMOTE_DELETE_LAG_SEGMENTS = gauge(
    "kafka_server_brokertopicmetrics_remotedeletelagsegments", "Number of those segments.", "topic"
)
BUILT_REMOTE_AUX = counter(
    "kafka_server_brokertopicmetrics_buildremotelogauxstaterequests_total",
    "Attempts of followers to start a log at the end of the remote log.",
    "topic",
)
FAILED_REMOTE_AUX = counter(
    "kafka_server_brokertopicmetrics_buildremotelogauxstateerrors_total",
    "Failed attempts, which are retried.",
    "topic",
)
REMOTE_LOG_SIZE = gauge(
    "kafka_server_brokertopicmetrics_remotelogsizebytes", "Bytes of a topic's remote segments.", "topic"
)
REMOTE_SEGMENTS = gauge(
    "kafka_server_brokertopicmetrics_remotelogmetadatacount", "Remote segments of a topic.", "topic"
)

# Of the broker
REMOTE_READER_QUEUE = gauge(
    "kafka_log_remote_remotelogmanager_remotelogreadertaskqueuesize",
    "Chunks of remote segments waiting to be downloaded.",
)
REMOTE_READER_IDLE = gauge(
    "kafka_log_remote_remotelogmanager_remotelogreaderavgidlepercent",
    "Fraction of remote.log.reader.threads, 0 to 1, that is idle.",
)
REMOTE_READER_TIMES = Metric(
    "summary",
    "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems",
    "Download time of a chunk in milliseconds; quantiles since the start, estimated.",
    ("quantile",),
)
REMOTE_TASKS_IDLE = gauge(
    "kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidlepercent",
    "Fraction of the led tiered partitions, 0 to 1, without a copy or deletion in progress.",
)
REMOTE_FETCH_BYTE_RATE = gauge(
    "kafka_server_rlmfetch_byte_rate", "Bytes per second read from the object store."
)
REMOTE_COPY_BYTE_RATE = gauge(
    "kafka_server_rlmcopy_byte_rate", "Bytes per second copied to the object store."
)
REMOTE_FETCH_THROTTLE_AVG = gauge(
    "kafka_server_remotelogmanager_remote_fetch_throttle_time_avg",
    "Average throttle time of remote reads in milliseconds (remote.log.manager.fetch.max.bytes.per.second).",
)
REMOTE_FETCH_THROTTLE_MAX = gauge(
    "kafka_server_remotelogmanager_remote_fetch_throttle_time_max", "Maximum of this throttle time."
)
REMOTE_COPY_THROTTLE_AVG = gauge(
    "kafka_server_remotelogmanager_remote_copy_throttle_time_avg",
    "Average throttle time of copied parts in milliseconds (remote.log.manager.copy.max.bytes.per.second).",
)
REMOTE_COPY_THROTTLE_MAX = gauge(
    "kafka_server_remotelogmanager_remote_copy_throttle_time_max", "Maximum of this throttle time."
)
REMOTE_SEARCHES_EXPIRED = counter(
    "kafka_server_delayedremotelistoffsetsmetrics_expires_total",
    "Lookups by timestamp in remote segments that timed out (remote.list.offsets.request.timeout.ms).",
)
REMOTE_FETCHES_EXPIRED = counter(
    "kafka_server_delayedremotefetchmetrics_expires_total",
    "Fetches that returned before all of their remote data had arrived (remote.fetch.max.wait.ms).",
)
REMOTE_CACHE_BYTES = gauge(
    "barnabas_remote_cache_bytes",
    "Bytes of remote segments in the cache of this broker, on disk or in memory.",
    "where",
)
REMOTE_CACHE_LIMIT = gauge("barnabas_remote_cache_limit_bytes", "barnabas.remote.cache.bytes.")
REMOTE_CACHE_READS = counter(
    "barnabas_remote_cache_reads_total",
    "Lookups of remote segment chunks in the cache: hit, miss.",
    "outcome",
)
REMOTE_CACHE_EVICTED = counter(
    "barnabas_remote_cache_evicted_total", "Chunks of remote segments evicted from the cache."
)
REMOTE_STORE_READS = counter(
    "barnabas_remote_store_reads_total", "Reads from the object store: all, failed.", "outcome"
)
REMOTE_STORE_DOWN = gauge(
    "barnabas_remote_store_down", "1 while the object store is unreachable; it is retried once per second."
)

CATALOGUE = metrics_among(globals())
