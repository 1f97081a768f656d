"""The site as a browser shows it: built by Sphinx without a warning, readable at any width, and of this host only."""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest
from support.browsers import Browser, chromium
from support.peers import node_peer, once, python_peer, run_folder
from support.project import ROOT

pytestmark = pytest.mark.exhaustive  # `nox -s site` builds it, where a broken link is an error.

SCREENSHOTS: Final = ROOT / "build" / "site-screenshots"
WIDTHS: Final = (400, 1600)
WEIGHT: Final = 300_000  # Bytes that a page and what it loads may have, compressed as a web server does it.
# Pages of each form that there is: text, wide tables, pictures, charts, reference, search.
FORMS: Final = (
    *("index", "start", "concepts", "features", "protocol-features", "performance", "troubleshooting"),
    *("reference/mcp_generated-App", "reference/index", "search", "adr/README"),
    *("changes/2026-07-28", "debugging"),
)


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built with the packages that pyproject.toml pins, once for all test processes."""
    folder = run_folder(tmp_path_factory) / "site"
    return Path(once(tmp_path_factory, "site", lambda: str(build(folder))))


def build(folder: Path) -> Path:
    """Build the site."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sphinx = python_peer(" ".join(project["optional-dependencies"]["docs"]))
    command = [sys.executable, "-m", "website", "--output", str(folder), "--python", str(sphinx)]
    paths = os.pathsep.join([str(ROOT / "docs"), *sys.path])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def origin(site: Path) -> Iterator[str]:
    """Where the site is served over HTTP."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser, which shows all pages one after the other."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core."""
    return (node_peer("axe-core@4.14.1") / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def pages(site: Path) -> list[str]:
    """The pages of the site, without the suffix; the explorer has tests of its own."""
    names = sorted(path.relative_to(site).as_posix().removesuffix(".html") for path in site.rglob("*.html"))
    assert len(names) > 60
    return [name for name in names if name != "schema-explorer"]


def show(browser: Browser, address: str, width: int = 1600, scheme: str = "light") -> None:
    """Open an address in a window of a width, in a colour scheme."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(address)


def findings(browser: Browser, axe: str) -> list[str]:
    """What axe-core finds on the page that is shown, of weight serious or critical."""
    browser.execute_script(axe)
    result = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done, done)"
    )
    assert result.get("passes"), result
    return [
        f"{browser.current_url} {entry['impact']} {entry['id']}: {entry['nodes'][0]['html'][:200]}"
        for entry in result["violations"]
        if entry["impact"] in ("serious", "critical")
    ]


@pytest.mark.edges("start", "protocol-features", "mcp_generated-App", "search")
@pytest.mark.parametrize(("number", "name"), list(enumerate(FORMS)), ids=FORMS)
def test_no_form_of_page_is_hard_to_use(browser: Browser, origin: str, axe: str, number: int, name: str) -> None:
    """Each form of a page, by turns light and wide, dark and narrow; axe-core takes seconds for each."""
    width, scheme = ((1600, "light"), (400, "dark"))[number % 2]
    show(browser, f"{origin}/{name}.html", width, scheme)
    assert findings(browser, axe) == []


@pytest.mark.edges("400-light", "1600-dark")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_the_window(browser: Browser, origin: str, width: int, scheme: str) -> None:
    """The screenshots are in build/site-screenshots/."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    wider: dict[str, int] = {}
    for name in FORMS:
        show(browser, f"{origin}/{name}.html", width, scheme)
        content = browser.execute_script("return document.documentElement.scrollWidth")
        if content > width:
            wider[name] = content
        picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        (SCREENSHOTS / f"{name.replace('/', '-')}-{width}-{scheme}.png").write_bytes(base64.b64decode(picture))
    assert wider == {}


@pytest.mark.exhaustive
def test_pages_are_light_and_load_nothing_of_other_hosts(browser: Browser, origin: str, site: Path) -> None:
    heavy: dict[str, int] = {}
    for name in [*pages(site), "schema-explorer"]:
        show(browser, f"{origin}/{name}.html")
        script = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        addresses = {f"{origin}/{name}.html", *browser.execute_script(script)}
        other = [address for address in addresses if not address.startswith((f"{origin}/", "data:"))]
        assert other == [], name
        files = [
            site / unquote(urlsplit(address).path).lstrip("/") for address in addresses if address.startswith("http")
        ]
        weight = sum(len(gzip.compress(file.read_bytes())) for file in files if file.is_file())
        if weight > WEIGHT:
            heavy[name] = weight
    assert heavy == {}
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_search_needs_no_server(browser: Browser, site: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    show(browser, f"{(site / 'search.html').as_uri()}?q=elicitation")
    WebDriverWait(browser, 30).until(lambda shown: shown.find_elements(By.CSS_SELECTOR, "#search-results li a"))
    links = [link.get_attribute("href") for link in browser.find_elements(By.CSS_SELECTOR, "#search-results li a")]
    assert any("elicitation.html" in link for link in links)


def test_a_page_can_be_used_with_the_keyboard(browser: Browser, origin: str) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, f"{origin}/concepts.html", 400)
    script = "const it = document.activeElement; return it.className + ' ' + (it.getAttribute('href') || '')"

    def focused_after(key: str) -> str:
        browser.switch_to.active_element.send_keys(key)
        return str(browser.execute_script(script))

    assert "#furo-main-content" in focused_after(Keys.TAB), "the first link skips the navigation"
    focused_after(Keys.ENTER)
    assert any("picture-scroll" in focused_after(Keys.TAB) for _ in range(20))


def test_links_between_pages_lead_to_anchors(site: Path) -> None:
    """Sphinx checks those of Markdown; here are those of HTML, such as the navigation."""
    from html.parser import HTMLParser

    class Parser(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.ids: set[str] = set()
            self.links: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            named = dict(attrs)
            self.ids.add(named.get("id") or "")
            if tag in ("a", "link") and (href := named.get("href")) is not None:
                self.links.append(href)

    parsed: dict[Path, Parser] = {}
    for path in site.rglob("*.html"):
        parsed[path] = Parser()
        parsed[path].feed(path.read_text(encoding="utf-8"))
    broken: list[str] = []
    for path, parser in parsed.items():
        for link in parser.links:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = parsed[target].ids if target in parsed else set()
            if parts.scheme or path.name == "schema-explorer.html":
                continue
            if not target.is_file() or (parts.fragment and parts.fragment not in anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
