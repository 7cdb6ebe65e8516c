"""Security of a broker, built from its configuration: authentication, authorization and audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.broker.security.companion_login import login_of as login_of
    from barnabas.broker.security.offline import FIRST_USER as FIRST_USER
    from barnabas.broker.security.offline import add_user as add_user
    from barnabas.broker.security.offline import create_first_user as create_first_user
    from barnabas.broker.security.offline import delete_user as delete_user
    from barnabas.broker.security.offline import set_password as set_password
    from barnabas.broker.security.offline import users as users
    from barnabas.broker.security.tls import authority_of as authority_of
else:
    __getattr__ = lazy_exports(__name__)
