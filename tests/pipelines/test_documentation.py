"""Every option of the data source is documented with its default and meaning."""

from barnabas.spark.client_settings import UNDERSTOOD
from barnabas.spark.options import OPTIONS
from tests.support.programs import PROJECT_ROOT

PAGE = PROJECT_ROOT / "docs" / "pipelines" / "source.md"


def test_the_page_of_the_source_names_every_option() -> None:
    lines = PAGE.read_text().splitlines()
    for option in OPTIONS:
        if "source" in option.sides:
            default = f"`{option.default}`" if option.default else ""
            assert f"| `{option.name}` | {default} | {option.meaning} |" in lines


def test_the_page_of_the_source_names_every_setting_of_the_client() -> None:
    lines = PAGE.read_text().splitlines()
    for name, meaning in UNDERSTOOD.items():
        if "(sink)" not in meaning:
            assert f"| `kafka.{name}` | {meaning} |" in lines
