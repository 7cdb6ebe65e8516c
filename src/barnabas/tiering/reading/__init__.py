"""Reading remote segments.

remote_log          one partition: from an offset, or a time, to a slice of a cached chunk
manifest_reader     which segment holds an offset
remote_index_cache  footers and indexes of segments, in memory
chunk_cache         chunks of segments, on this disk (`chunk_files`)
read_ahead          the next chunks of a sequential reader
store_reader        retries, and a store that is down

bucket_topics       which clusters, topics and partitions a bucket has, for readers without a broker
segment_ranges      from offsets, or a time, to parts of segments
segment_fetcher     those parts, chunk by chunk, as batches to decode
"""
