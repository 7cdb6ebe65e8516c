"""The pictures of docs/console.md: `pytest tests/services/console/browser/test_screenshots.py --screenshots`."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.client.schemas import RegistryAccount
from barnabas.services.console.settings import ClusterSettings
from tests.services.console.browser.shop import shop
from tests.services.console.browser.visits import PHONE, Scheme, visiting
from tests.services.console.web import CLUSTER, RunningConsole, running_console
from tests.support.programs import PROJECT_ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES = PROJECT_ROOT / "docs" / "images" / "console"
MAX_PICTURE = 60_000
WATCHED_SECONDS = 420.0
"""The curves are what the console has sampled: nothing is made up."""
SIZE = (1440, 900)
SHOWN: dict[str, tuple[str, Scheme, tuple[int, int]]] = {
    "overview": ("?since=15m", "light", SIZE),
    "schemas": ("/schemas/orders-value?tab=changes", "light", SIZE),
    "records": ("/topics/orders/records?find=Oslo&where=value.amount+%3E+60", "light", (1280, 720)),
    "group": ("/groups/warehouse?since=15m", "dark", SIZE),
    "offsets": ("/groups/warehouse/offsets?to=latest", "light", SIZE),
    "chart": ("/topics/orders/chart", "light", SIZE),
    "logs": ("/logs?find=bank", "light", SIZE),
    "phone": ("?since=15m", "dark", PHONE),
}
# Small pictures without a program for that: the browser has an encoder.
AS_WEBP = """async (data) => {
    const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    canvas.getContext("2d").drawImage(picture, 0, 0);
    const made = await (await canvas.convertToBlob({ type: "image/webp", quality: 0.7 })).arrayBuffer();
    return btoa(Array.from(new Uint8Array(made), (byte) => String.fromCharCode(byte)).join(""));
}"""


@pytest.fixture(scope="module")
def shop_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder: Path = tmp_path_factory.mktemp("shop")
    with shop() as broker:
        registry = RegistryAccount.at(broker.registry_url)
        cluster = ClusterSettings(CLUSTER, broker.bootstrap_servers, registry=registry, logs=("app.logs",))
        with running_console(broker.bootstrap_servers, folder, clusters=(cluster,)) as console:
            time.sleep(WATCHED_SECONDS)
            yield console


@pytest.mark.timeout(1800)  # the first one waits until there is something to show
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_has_its_picture(chromium: Browser, shop_console: RunningConsole, name: str) -> None:
    path, scheme, size = SHOWN[name]
    with visiting(chromium, shop_console.url, scheme, size) as visit:
        visit.open(f"/c/{CLUSTER}{path}")
        visit.page.wait_for_timeout(
            12_000 if name == "overview" else 1_500
        )  # a second sample; hits of a search
        visit.open(f"/c/{CLUSTER}{path}")
        if name == "records":
            visit.page.locator("main tbody tr").first.wait_for()
        visit.page.wait_for_timeout(3_000)  # until curves are drawn and a search has read enough to look at
        taken = visit.page.screenshot()
        small = base64.b64decode(_blank(chromium, taken))
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / f"{name}.webp").write_bytes(small)
    assert len(small) <= MAX_PICTURE


def _blank(chromium: Browser, picture: bytes) -> str:
    page = chromium.new_page()
    try:
        return str(page.evaluate(AS_WEBP, base64.b64encode(picture).decode()))
    finally:
        page.close()
