"""The metrics of tiered storage: what is copied, read and deleted of remote segments, and the cache of them."""

from __future__ import annotations

from barnabas.metrics.registry import Metric, counter, gauge, metrics_among

# By topic
REMOTE_FETCHES = counter(
    "kafka_server_brokertopicmetrics_remotefetchrequests_total", "Reads of remote segments.", "topic"
)
REMOTE_FETCH_BYTES = counter(
    "kafka_server_brokertopicmetrics_remotefetchbytes_total",
    "Bytes of batches of remote segments that were sent to consumers.",
    "topic",
)
FAILED_REMOTE_FETCHES = counter(
    "kafka_server_brokertopicmetrics_remotefetcherrors_total",
    "Reads of remote segments that ended in an error.",
    "topic",
)
REMOTE_COPIES = counter(
    "kafka_server_brokertopicmetrics_remotecopyrequests_total",
    "Segments that were copied to the object store.",
    "topic",
)
REMOTE_COPY_BYTES = counter(
    "kafka_server_brokertopicmetrics_remotecopybytes_total", "Bytes of those segments.", "topic"
)
FAILED_REMOTE_COPIES = counter(
    "kafka_server_brokertopicmetrics_remotecopyerrors_total",
    "Attempts to copy a segment to the object store that failed.",
    "topic",
)
REMOTE_DELETES = counter(
    "kafka_server_brokertopicmetrics_remotedeleterequests_total",
    "Remote segments that were deleted from the object store.",
    "topic",
)
FAILED_REMOTE_DELETES = counter(
    "kafka_server_brokertopicmetrics_remotedeleteerrors_total",
    "Attempts to delete remote segments that failed.",
    "topic",
)
REMOTE_COPY_LAG_BYTES = gauge(
    "kafka_server_brokertopicmetrics_remotecopylagbytes",
    "Bytes of sealed segments that are not copied yet.",
    "topic",
)
REMOTE_COPY_LAG_SEGMENTS = gauge(
    "kafka_server_brokertopicmetrics_remotecopylagsegments",
    "Sealed segments that are not copied yet.",
    "topic",
)
REMOTE_DELETE_LAG_BYTES = gauge(
    "kafka_server_brokertopicmetrics_remotedeletelagbytes",
    "Bytes of remote segments that are expired or replaced, and not deleted yet.",
    "topic",
)
REMOTE_DELETE_LAG_SEGMENTS = gauge(
    "kafka_server_brokertopicmetrics_remotedeletelagsegments", "Those segments.", "topic"
)
BUILT_REMOTE_AUX = counter(
    "kafka_server_brokertopicmetrics_buildremotelogauxstaterequests_total",
    "Logs of followers that were to begin at the tiered end.",
    "topic",
)
FAILED_REMOTE_AUX = counter(
    "kafka_server_brokertopicmetrics_buildremotelogauxstateerrors_total",
    "Those that could not, and try again.",
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
    "Chunks of remote segments that wait to be downloaded.",
)
REMOTE_READER_IDLE = gauge(
    "kafka_log_remote_remotelogmanager_remotelogreaderavgidlepercent",
    "Share of remote.log.reader.threads, 0 to 1, that download nothing at this moment.",
)
REMOTE_READER_TIMES = Metric(
    "summary",
    "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems",
    "Time that the download of a chunk took, in milliseconds; quantiles since the start, estimated.",
    ("quantile",),
)
REMOTE_TASKS_IDLE = gauge(
    "kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidlepercent",
    "Share of the partitions led here with a remote part, 0 to 1, of which nothing is copied or deleted right now.",
)
REMOTE_FETCH_BYTE_RATE = gauge(
    "kafka_server_rlmfetch_byte_rate", "Bytes per second that are read from the object store."
)
REMOTE_COPY_BYTE_RATE = gauge(
    "kafka_server_rlmcopy_byte_rate", "Bytes per second that are copied to the object store."
)
REMOTE_FETCH_THROTTLE_AVG = gauge(
    "kafka_server_remotelogmanager_remote_fetch_throttle_time_avg",
    "Milliseconds that remote reads waited for remote.log.manager.fetch.max.bytes.per.second, on average.",
)
REMOTE_FETCH_THROTTLE_MAX = gauge(
    "kafka_server_remotelogmanager_remote_fetch_throttle_time_max", "The longest of these waits."
)
REMOTE_COPY_THROTTLE_AVG = gauge(
    "kafka_server_remotelogmanager_remote_copy_throttle_time_avg",
    "Milliseconds that pieces of segments waited for remote.log.manager.copy.max.bytes.per.second, on average.",
)
REMOTE_COPY_THROTTLE_MAX = gauge(
    "kafka_server_remotelogmanager_remote_copy_throttle_time_max", "The longest of these waits."
)
REMOTE_SEARCHES_EXPIRED = counter(
    "kafka_server_delayedremotelistoffsetsmetrics_expires_total",
    "Searches by time that found nothing in remote segments in time (remote.list.offsets.request.timeout.ms).",
)
REMOTE_FETCHES_EXPIRED = counter(
    "kafka_server_delayedremotefetchmetrics_expires_total",
    "Fetches that were answered before all of their remote segments had come (remote.fetch.max.wait.ms).",
)
REMOTE_CACHE_BYTES = gauge(
    "barnabas_remote_cache_bytes",
    "Bytes of remote segments in the cache of this broker, on disk or in memory.",
    "where",
)
REMOTE_CACHE_LIMIT = gauge("barnabas_remote_cache_limit_bytes", "barnabas.remote.cache.bytes.")
REMOTE_CACHE_READS = counter(
    "barnabas_remote_cache_reads_total",
    "Chunks of remote segments that were asked for: hit, miss.",
    "outcome",
)
REMOTE_CACHE_EVICTED = counter(
    "barnabas_remote_cache_evicted_total", "Chunks of remote segments that made room for others."
)
REMOTE_STORE_READS = counter(
    "barnabas_remote_store_reads_total", "Reads from the object store: all, failed.", "outcome"
)
REMOTE_STORE_DOWN = gauge(
    "barnabas_remote_store_down", "1 while the object store does not answer, and is asked once a second."
)

CATALOGUE = metrics_among(globals())
