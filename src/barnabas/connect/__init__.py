"""Connectors: pipelines written in YAML, which move rows from a source to a sink, each row once.

declaration   what NAME.yml says, read and checked without Spark
ends          what a source and a sink are, the tables SOURCES and SINKS
sources/      topics, files, tables of databases
sinks/        topics, tables of databases, tables of files
transforms    rename, mask, filter, route, cast, drop: Spark columns
compiling     a declaration becomes one flow of the runner
control       many connectors in one Spark: restarts, pauses, what they report
"""
