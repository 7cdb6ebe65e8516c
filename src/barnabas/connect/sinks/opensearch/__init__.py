"""Records as documents of OpenSearch or Elasticsearch, exactly once: an offset is a document's version.

sink      settings in NAME.yml, and micro-batches as a Spark job
guard     a topic whose offsets can be versions
sending   bulk requests until every document is there or refused
bulk      bodies of requests, and what answers mean
"""
