"""A schema registry with Confluent's REST API; its state is the topic `_schemas`, in the format that others read too.

`model`, `records`, `state` and `subjects` are pure: what is registered, how it is written down, what a request changes.
`formats/` reads schemas, `compatibility/` compares two of them. `store` reads and writes the topic, `leadership` says
who may write, `access` who may do what. `api/` is HTTP, and `server` puts it together.
"""
