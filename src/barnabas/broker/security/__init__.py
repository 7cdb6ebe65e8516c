"""Security of a broker, built from its configuration: authentication, authorization and audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.broker.security.companion_login import login_of
    from barnabas.broker.security.offline import (
        FIRST_USER,
        add_user,
        create_first_user,
        delete_user,
        set_password,
        users,
    )
    from barnabas.broker.security.tls import authority_of
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "companion_login": "login_of",
            "offline": "FIRST_USER add_user create_first_user delete_user set_password users",
            "tls": "authority_of",
        },
    )

__all__ = [
    "FIRST_USER",
    "add_user",
    "authority_of",
    "create_first_user",
    "delete_user",
    "login_of",
    "set_password",
    "users",
]
