"""TLS of clients and servers: key stores, contexts, and mapping of certificates to principals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.tls.authority import Authority, OwnCertificate, own_certificate, own_hosts
    from barnabas.security.tls.mapping_rules import (
        MappingRules,
        NoRuleAppliesError,
        subject_of,
        subject_of_pem,
    )
    from barnabas.security.tls.pem_files import check_files, context_of_files
    from barnabas.security.tls.server import (
        Identify,
        ListenerTls,
        explain_client,
        https_context,
        listener_tls,
        of_listener,
        server_context,
        suites_of,
    )
    from barnabas.security.tls.settings import (
        TlsSettings,
        identify,
        limit_versions,
        parse_tls,
        set_ciphers,
        trust,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "authority": "Authority OwnCertificate own_certificate own_hosts",
            "mapping_rules": "MappingRules NoRuleAppliesError subject_of subject_of_pem",
            "pem_files": "check_files context_of_files",
            "server": (
                "Identify ListenerTls explain_client https_context listener_tls of_listener server_context "
                "suites_of"
            ),
            "settings": "TlsSettings identify limit_versions parse_tls set_ciphers trust",
        },
    )

__all__ = [
    "Authority",
    "Identify",
    "ListenerTls",
    "MappingRules",
    "NoRuleAppliesError",
    "OwnCertificate",
    "TlsSettings",
    "check_files",
    "context_of_files",
    "explain_client",
    "https_context",
    "identify",
    "limit_versions",
    "listener_tls",
    "of_listener",
    "own_certificate",
    "own_hosts",
    "parse_tls",
    "server_context",
    "set_ciphers",
    "subject_of",
    "subject_of_pem",
    "suites_of",
    "trust",
]
