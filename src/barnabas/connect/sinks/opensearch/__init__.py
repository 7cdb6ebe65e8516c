"""Records as documents in OpenSearch or Elasticsearch, exactly once: the offset is the document version.

sink      settings in NAME.yml, and micro-batches as Spark jobs
guard     detects topics whose offsets are no longer valid versions
sending   bulk requests with retries
bulk      bodies and responses of bulk requests
"""
