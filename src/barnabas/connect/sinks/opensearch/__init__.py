"""Records as documents of OpenSearch or Elasticsearch, exactly once: an offset is a document's version.

sink      what NAME.yml says
writing   micro-batches as a job of Spark
guard     a topic whose offsets can be versions
sending   bulk requests until every document is there or refused
bulk      bodies of requests, and what answers mean
"""
