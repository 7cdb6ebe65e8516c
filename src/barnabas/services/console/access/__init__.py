"""Login, sessions, roles, masks and the audit log of the console.

`gate_of` makes the authenticator of a console, `read_console_file` reads `console.yml`, `ConsoleAudit` records changes.
"""
