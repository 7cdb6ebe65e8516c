"""Schemas of a registry, ready for use: Avro for fastavro, Protobuf messages without generated code."""
