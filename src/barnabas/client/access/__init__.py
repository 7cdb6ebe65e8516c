"""Administration of access: ACLs, SCRAM users, delegation tokens and client quotas of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.access.acls import AclSyntaxError as AclSyntaxError
    from barnabas.client.access.acls import Pattern as Pattern
    from barnabas.client.access.acls import check_principal as check_principal
    from barnabas.client.access.acls import create_acls as create_acls
    from barnabas.client.access.acls import delete_acls as delete_acls
    from barnabas.client.access.acls import describe_acls as describe_acls
    from barnabas.client.access.acls import operation_word as operation_word
    from barnabas.client.access.explaining import AclSnapshot as AclSnapshot
    from barnabas.client.access.explaining import action_of as action_of
    from barnabas.client.access.explaining import because as because
    from barnabas.client.access.explaining import explained as explained
    from barnabas.client.access.explaining import judge_of as judge_of
    from barnabas.client.access.logins import REMEMBERED as REMEMBERED
    from barnabas.client.access.logins import KafkaUser as KafkaUser
    from barnabas.client.access.logins import KafkaUsers as KafkaUsers
    from barnabas.client.access.logins import login_from as login_from
    from barnabas.client.access.logins import password_login as password_login
    from barnabas.client.access.users import User as User
    from barnabas.client.access.users import alter_quotas as alter_quotas
    from barnabas.client.access.users import create_token as create_token
    from barnabas.client.access.users import delete_user as delete_user
    from barnabas.client.access.users import describe_quotas as describe_quotas
    from barnabas.client.access.users import describe_tokens as describe_tokens
    from barnabas.client.access.users import describe_users as describe_users
    from barnabas.client.access.users import expire_token as expire_token
    from barnabas.client.access.users import raise_refusals as raise_refusals
    from barnabas.client.access.users import renew_token as renew_token
    from barnabas.client.access.users import set_password as set_password
    from barnabas.client.access.users import setting_password as setting_password
else:
    __getattr__ = lazy_exports(__name__)
