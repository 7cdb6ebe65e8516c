"""Every TLS and SASL setting is documented."""

from barnabas.client.security.settings import UNDERSTOOD
from tests.support.programs import PROJECT_ROOT

PAGE = PROJECT_ROOT / "docs" / "tls-and-sasl.md"


def test_the_page_names_every_setting() -> None:
    lines = PAGE.read_text().splitlines()
    for name, meaning in UNDERSTOOD.items():
        assert f"| `{name}` | {meaning} |" in lines
