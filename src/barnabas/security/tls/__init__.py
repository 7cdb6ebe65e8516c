"""TLS of clients and servers: key stores, contexts, and mapping of certificates to principals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.tls.authority import Authority as Authority
    from barnabas.security.tls.authority import OwnCertificate as OwnCertificate
    from barnabas.security.tls.authority import own_certificate as own_certificate
    from barnabas.security.tls.authority import own_hosts as own_hosts
    from barnabas.security.tls.mapping_rules import MappingRules as MappingRules
    from barnabas.security.tls.mapping_rules import NoRuleAppliesError as NoRuleAppliesError
    from barnabas.security.tls.mapping_rules import subject_of as subject_of
    from barnabas.security.tls.mapping_rules import subject_of_pem as subject_of_pem
    from barnabas.security.tls.pem_files import check_files as check_files
    from barnabas.security.tls.pem_files import context_of_files as context_of_files
    from barnabas.security.tls.server import Identify as Identify
    from barnabas.security.tls.server import ListenerTls as ListenerTls
    from barnabas.security.tls.server import explain_client as explain_client
    from barnabas.security.tls.server import https_context as https_context
    from barnabas.security.tls.server import listener_tls as listener_tls
    from barnabas.security.tls.server import of_listener as of_listener
    from barnabas.security.tls.server import server_context as server_context
    from barnabas.security.tls.server import suites_of as suites_of
    from barnabas.security.tls.settings import TlsSettings as TlsSettings
    from barnabas.security.tls.settings import identify as identify
    from barnabas.security.tls.settings import limit_versions as limit_versions
    from barnabas.security.tls.settings import parse_tls as parse_tls
    from barnabas.security.tls.settings import set_ciphers as set_ciphers
    from barnabas.security.tls.settings import trust as trust
else:
    __getattr__ = lazy_exports(__name__)
