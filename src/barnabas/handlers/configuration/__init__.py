"""Configs of topics, brokers, loggers, groups and client metrics: `describe_configs` returns them,
`alter_configs` changes them at runtime, `config_resources` has the rules of each resource type.
"""
