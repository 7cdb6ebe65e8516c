from __future__ import annotations

import pytest

from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.services.ingest.http.settings import HttpSettings, check_settings

OUTSIDE = "0.0.0.0:8088"


def settings(**settings: object) -> HttpSettings:
    return HttpSettings(topic="events", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("listen", ["127.0.0.1:8088", "localhost:1", "[::1]:8088", "127.9.9.9:0"])
def test_this_machine_needs_neither_tls_nor_tokens(listen: str) -> None:
    check_settings(settings(listen=listen))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "lacks TLS .* and authentication"),
        ({"token_file": "t"}, "lacks TLS"),
        ({"tls_certificate": "c"}, "lacks authentication"),
    ],
)
@pytest.mark.parametrize("listen", [OUTSIDE, "[::]:8088", "192.0.2.1:8088", "some.host:8088"])
def test_other_machines_are_refused_without_tls_or_tokens(
    listen: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(SecuritySettingError, match=message):
        check_settings(settings(listen=listen, **values))
    check_settings(settings(listen=listen, insecure=True, **values))


def test_with_tls_and_tokens_or_certificates_other_machines_may_write() -> None:
    check_settings(settings(listen=OUTSIDE, tls_certificate="c", token_file="t"))
    check_settings(settings(listen=OUTSIDE, tls_certificate="c", tls_client_ca="ca"))


def test_contradictory_settings_are_rejected() -> None:
    with pytest.raises(ValueError, match="mutually exclusive"):
        check_settings(settings(key="a", key_field="b"))
    with pytest.raises(ValueError, match="at least twice"):
        check_settings(settings(queue_bytes=1000, max_body_bytes=501))
    with pytest.raises(ValueError, match="no valid port"):
        check_settings(settings(listen="127.0.0.1:x"))
    with pytest.raises(SecuritySettingError, match="without tls_certificate"):
        check_settings(settings(tls_key="k"))
