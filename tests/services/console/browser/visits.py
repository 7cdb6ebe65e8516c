"""One page in a browser with an empty cache, and its requests, bytes, errors and violations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from tests.services.console.browser.conftest import AXE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

Scheme = Literal["light", "dark"]

DESKTOP, PHONE = (1440, 900), (390, 844)
TIMEOUT_S = 60.0
QUIET_S = 0.15  # without a request: the page is there
WATCH = """
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) =>
        window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}`));
"""
# Remainder of a hostile name if it were parsed as markup or script.
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
INJECTED = """() => ({
    ran: window.injected ?? null,
    elements: [...document.querySelectorAll(".injected, img[src=x]")].map((each) => each.outerHTML),
    links: [...document.querySelectorAll("a[href], form[action]")]
        .map((each) => each.getAttribute("href") ?? each.getAttribute("action"))
        .filter((target) => /^\\s*(javascript|data|vbscript):/i.test(target)),
})"""
FIRST_PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0"""
SIDEWAYS = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const inside = (each) => each.closest(".wide, nav.main, dialog:not([open]), [hidden]") === null;
    return [...document.querySelectorAll("body *")]
        .filter((each) => each.getBoundingClientRect().right > width + 1 && inside(each))
        .map((each) => `${each.tagName} ${each.className} ${each.id}`).slice(0, 5).concat(["the page scrolls"]);
}"""


class Visit:
    """Activity of a console page in a browser. `page` is Playwright's."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page, self.origin = page, origin
        self.status = 0
        self.errors: list[str] = []
        self._done: list[Request] = []
        self.elsewhere: list[str] = []
        self._waiting: set[Request] = set()
        self._last = time.monotonic()
        page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._refuse)
        page.on("request", self._begun)
        page.on("requestfinished", self._finished)
        page.on("requestfailed", self._ended)
        page.add_init_script(WATCH)

    def open(self, path: str) -> None:
        answer = self.page.goto(f"{self.origin}{path}", wait_until="load")
        self.status = answer.status if answer is not None else 0
        self.settle()

    def settle(self) -> None:
        """Until the page sends no more requests; streams stay open."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._waiting or time.monotonic() - self._last < QUIET_S:
            assert time.monotonic() < deadline, [request.url for request in self._waiting]
            self.page.wait_for_timeout(20)
        self.page.evaluate(DRAWN)

    @property
    def bytes(self) -> int:
        """Transferred bytes so far; fonts are loaded once, without blocking pages."""
        done = (request for request in self._done if request.resource_type != "font")
        return sum(request.sizes()["responseBodySize"] for request in done)

    @property
    def violations(self) -> list[str]:
        return list(self.page.evaluate("() => window.violations"))

    @property
    def injected(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(INJECTED)
        return {name: value for name, value in found.items() if value}

    @property
    def first_paint_ms(self) -> float:
        return float(self.page.evaluate(FIRST_PAINT))

    @property
    def sideways(self) -> list[str]:
        return list(self.page.evaluate(SIDEWAYS))

    def accessibility(self, *rules: str) -> list[str]:
        """Findings of axe-core; `rules` selects some."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text())
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        options = {"resultTypes": ["violations"], **only}
        found = self.page.evaluate("(options) => axe.run(document, options)", options)
        return [
            f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]

    def _refuse(self, dialog: Any) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _begun(self, request: Request) -> None:
        self._last = time.monotonic()
        if not request.url.startswith((f"{self.origin}/", "data:", "blob:")):
            self.elsewhere.append(request.url)
        if request.resource_type != "eventsource":
            self._waiting.add(request)

    def _finished(self, request: Request) -> None:
        self._done.append(request)
        self._ended(request)

    def _ended(self, request: Request) -> None:
        self._last = time.monotonic()
        self._waiting.discard(request)


@contextmanager
def visiting(
    browser: Browser, origin: str, scheme: Scheme = "light", size: tuple[int, int] = DESKTOP
) -> Iterator[Visit]:
    """With an empty cache, as on a first visit."""
    context = browser.new_context(
        color_scheme=scheme, reduced_motion="reduce", viewport={"width": size[0], "height": size[1]}
    )
    try:
        context.set_default_timeout(TIMEOUT_S * 1000)
        yield Visit(context.new_page(), origin)
    finally:
        context.close()
