"""Login, sessions, roles, masks and the audit log of the console.

`gate_of` creates the console's authenticator, `read_console_file` reads `console.yml`, `ConsoleAudit` records changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.console.access.authenticators import ExposedConsoleError as ExposedConsoleError
    from barnabas.services.console.access.console_file import read_console_file as read_console_file
    from barnabas.services.console.access.passwords import hash_of as hash_of
    from barnabas.services.console.access.passwords import new_token as new_token
else:
    __getattr__ = lazy_exports(__name__)
