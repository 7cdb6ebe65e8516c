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
    from barnabas.tiering.reading.bootstrap import Bootstrap
    from barnabas.tiering.reading.bucket_topics import (
        BucketError,
        BucketPartition,
        TopicFolder,
        by_name,
        find_cluster,
        find_topics,
        meant,
        read_partitions,
    )
    from barnabas.tiering.reading.chunk_cache import ChunkCache
    from barnabas.tiering.reading.chunk_files import ChunkFiles
    from barnabas.tiering.reading.remote_index_cache import RemoteIndexCache
    from barnabas.tiering.reading.remote_log import ReadingParts, RemoteLog, RemoteRead
    from barnabas.tiering.reading.segment_fetcher import SegmentFetcher
    from barnabas.tiering.reading.store_reader import StoreReader
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "bootstrap": "Bootstrap",
            "bucket_topics": (
                "BucketError BucketPartition TopicFolder by_name find_cluster find_topics meant read_partitions"
            ),
            "chunk_cache": "ChunkCache",
            "chunk_files": "ChunkFiles",
            "remote_index_cache": "RemoteIndexCache",
            "remote_log": "ReadingParts RemoteLog RemoteRead",
            "segment_fetcher": "SegmentFetcher",
            "store_reader": "StoreReader",
        },
    )

__all__ = [
    "Bootstrap",
    "BucketError",
    "BucketPartition",
    "ChunkCache",
    "ChunkFiles",
    "ReadingParts",
    "RemoteIndexCache",
    "RemoteLog",
    "RemoteRead",
    "SegmentFetcher",
    "StoreReader",
    "TopicFolder",
    "by_name",
    "find_cluster",
    "find_topics",
    "meant",
    "read_partitions",
]
