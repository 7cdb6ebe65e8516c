"""Reading remote segments.

remote_log          one partition: offset or timestamp to a slice of a cached chunk
manifest_reader     segment of an offset
remote_index_cache  footers and indexes of segments, in memory
chunk_cache         chunks of segments, in memory and on disk (`chunk_memory`, `chunk_files`)
read_ahead          prefetch for sequential readers
store_reader        retries and circuit breaker

bucket_topics       clusters, topics and partitions of a bucket, for readers without a broker
segment_ranges      offsets or timestamp to ranges of segments
segment_fetcher     batches of these ranges, chunk by chunk
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.reading.bootstrap import Bootstrap as Bootstrap
    from barnabas.tiering.reading.bucket_topics import BucketError as BucketError
    from barnabas.tiering.reading.bucket_topics import BucketPartition as BucketPartition
    from barnabas.tiering.reading.bucket_topics import TopicFolder as TopicFolder
    from barnabas.tiering.reading.bucket_topics import by_name as by_name
    from barnabas.tiering.reading.bucket_topics import find_cluster as find_cluster
    from barnabas.tiering.reading.bucket_topics import find_topics as find_topics
    from barnabas.tiering.reading.bucket_topics import read_partitions as read_partitions
    from barnabas.tiering.reading.bucket_topics import select_topics as select_topics
    from barnabas.tiering.reading.chunk_cache import ChunkCache as ChunkCache
    from barnabas.tiering.reading.chunk_files import ChunkFiles as ChunkFiles
    from barnabas.tiering.reading.remote_index_cache import RemoteIndexCache as RemoteIndexCache
    from barnabas.tiering.reading.remote_log import ReadingParts as ReadingParts
    from barnabas.tiering.reading.remote_log import RemoteBatch as RemoteBatch
    from barnabas.tiering.reading.remote_log import RemoteLog as RemoteLog
    from barnabas.tiering.reading.remote_log import RemoteRead as RemoteRead
    from barnabas.tiering.reading.segment_fetcher import SegmentFetcher as SegmentFetcher
    from barnabas.tiering.reading.store_reader import StoreReader as StoreReader
else:
    __getattr__ = lazy_exports(__name__)
