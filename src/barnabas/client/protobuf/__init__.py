"""Protobuf without generated code: messages by the descriptors that a schema registry gives."""
