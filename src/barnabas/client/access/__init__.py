"""Administration of access: ACLs, SCRAM users, delegation tokens and client quotas of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.access.acls import (
        Pattern,
        WordsError,
        check_principal,
        create_acls,
        delete_acls,
        describe_acls,
        operation_word,
    )
    from barnabas.client.access.explaining import Judge, action_of, because, explained, judge_of
    from barnabas.client.access.logins import REMEMBERED, KafkaUser, KafkaUsers, login_from, password_login
    from barnabas.client.access.users import (
        User,
        alter_quotas,
        create_token,
        delete_user,
        describe_quotas,
        describe_tokens,
        describe_users,
        expire_token,
        raise_refusals,
        renew_token,
        set_password,
        setting_password,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "acls": "Pattern WordsError check_principal create_acls delete_acls describe_acls operation_word",
            "explaining": "Judge action_of because explained judge_of",
            "logins": "KafkaUser KafkaUsers REMEMBERED login_from password_login",
            "users": (
                "User alter_quotas create_token delete_user describe_quotas describe_tokens describe_users "
                "expire_token raise_refusals renew_token set_password setting_password"
            ),
        },
    )

__all__ = [
    "REMEMBERED",
    "Judge",
    "KafkaUser",
    "KafkaUsers",
    "Pattern",
    "User",
    "WordsError",
    "action_of",
    "alter_quotas",
    "because",
    "check_principal",
    "create_acls",
    "create_token",
    "delete_acls",
    "delete_user",
    "describe_acls",
    "describe_quotas",
    "describe_tokens",
    "describe_users",
    "expire_token",
    "explained",
    "judge_of",
    "login_from",
    "operation_word",
    "password_login",
    "raise_refusals",
    "renew_token",
    "set_password",
    "setting_password",
]
