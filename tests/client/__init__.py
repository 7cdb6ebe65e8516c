"""Tests of the client, against Barnabas and against Apache Kafka."""
