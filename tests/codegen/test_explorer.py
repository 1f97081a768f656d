"""The explorer is one page, which Chromium opens from a file: search, changes and theme work, and nothing overflows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from support.browsers import Browser, chromium
from support.project import ROOT
from support.schemas.invented import folder, message, record, skeleton

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.reports.compare import compare
from mcp_generated import REVISIONS

HOSTILE = "</script><script>document.title='stolen'</script><img src=x onerror=\"document.title='stolen'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the revisions here."""
    return explored(tmp_path_factory.mktemp("explorer") / "mcp.html")


def explored(path: Path, *arguments: str) -> Path:
    result = CliRunner().invoke(main, ["explore", "--output", str(path), *arguments])
    assert result.exit_code == 0, result.output
    return path


def show(browser: Browser, page: Path, *parts: str, width: int = 1280) -> None:
    """Open a room of the page, in a window of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get(page.as_uri() + "#/" + "/".join(quote(part, safe="") for part in parts))


def text(browser: Browser, selector: str = "#view") -> str:
    return str(browser.execute_script("return document.querySelector(arguments[0]).innerText", selector))


def texts(browser: Browser, selector: str) -> list[str]:
    script = "return Array.from(document.querySelectorAll(arguments[0]), (each) => each.innerText.trim())"
    return list(browser.execute_script(script, selector))


def console_errors(browser: Browser) -> list[Any]:
    return [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.mark.long
def test_every_method_stands_in_every_revision_that_has_it(browser: Browser, page: Path) -> None:
    show(browser, page)
    assert texts(browser, ".matrix:first-of-type thead th")[:6] == ["Method", *REVISIONS]
    rows: dict[str, list[str]] = {}
    for row in browser.execute_script(
        "return Array.from(document.querySelectorAll('.matrix tbody tr'), (row) => "
        "[row.querySelector('code').innerText, ...Array.from(row.querySelectorAll('td'), (cell) => cell.innerText)])"
    ):
        rows.setdefault(row[0], row[1:])
    schemas = SchemaCatalog(ROOT / "schema")
    for at, revision in enumerate(REVISIONS):
        here = {method.method for method in schemas.revision(revision).methods}
        assert here <= rows.keys()
        assert {name for name, cells in rows.items() if cells[at] != "–"} <= here
    assert console_errors(browser) == []


@pytest.mark.long
def test_a_type_shows_its_fields_its_sentences_and_who_uses_it(browser: Browser, page: Path) -> None:
    show(browser, page, "types", "2025-11-25", "Tool")
    definition = SchemaCatalog(ROOT / "schema").revision("2025-11-25").types["Tool"]
    fields = definition.fields
    names = [re.sub(r"\?$", "", name) for name in texts(browser, ".fields tbody td:first-child")]
    assert names == [field.wire for field in fields]
    shown = text(browser)
    assert definition.doc in shown and "ListToolsResult.tools" in texts(browser, ".uses li")
    browser.execute_script("document.querySelector('.fields a[href$=ToolInputSchema]').click()")
    assert text(browser, "h1") == "ToolInputSchema"
    assert "Tool.inputSchema" in texts(browser, ".uses li")


@pytest.mark.long
def test_the_changes_between_any_two_revisions_stand_side_by_side(browser: Browser, page: Path) -> None:
    schemas = SchemaCatalog(ROOT / "schema")
    show(browser, page, "changes", "2025-06-18", "2026-07-28")
    expected = compare(schemas.revision("2025-06-18"), schemas.revision("2026-07-28"))
    assert len(texts(browser, ".changes tbody tr")) == len(expected)
    assert texts(browser, ".changes thead th") == ["Where", "2025-06-18", "2026-07-28", "Client", "Server"]
    for severity in ("deprecated", "compatible"):
        browser.execute_script("document.querySelector(`input[value=${arguments[0]}]`).click()", severity)
    breaking = [change for change in expected if "breaking" in (str(change.client), str(change.server))]
    assert len(texts(browser, ".changes tbody tr")) == len(breaking)
    choose = "const s = document.querySelector('#older'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    browser.execute_async_script(
        f"addEventListener('hashchange', () => setTimeout(arguments[1]), {{once: true}}); {choose}", "2024-11-05"
    )
    assert texts(browser, ".changes thead th")[1:3] == ["2024-11-05", "2026-07-28"]


@pytest.mark.long
def test_search_finds_methods_types_and_fields(browser: Browser, page: Path) -> None:
    show(browser, page)
    box = browser.find_element("id", "search")
    box.send_keys("nextcursor")
    assert "ListToolsResult.nextCursor" in texts(browser, ".hits code") or "PaginatedResult.nextCursor" in texts(
        browser, ".hits code"
    )
    box.clear()
    box.send_keys("tools/ca")
    assert texts(browser, ".hits code") == ["tools/call"]
    browser.find_element("css selector", ".hits a").click()
    assert text(browser, "h1") == "tools/call" and "CallToolRequestParams" in text(browser)
    box.send_keys("no such thing anywhere")
    assert text(browser, "h1").startswith("0 for")


@pytest.mark.long
def test_the_theme_is_that_of_the_reader_until_one_is_chosen(browser: Browser, page: Path) -> None:
    show(browser, page)
    browser.execute_script("try { localStorage.clear() } catch {}")
    show(browser, page)
    colour = "return getComputedStyle(document.body).backgroundColor"
    seen: dict[str, str] = {}
    for _ in range(3):
        seen[browser.execute_script("return document.documentElement.dataset.theme")] = browser.execute_script(colour)
        browser.find_element("id", "theme").click()
    assert seen.keys() == {"auto", "light", "dark"}
    assert (seen["light"], seen["dark"]) == ("rgb(255, 255, 255)", "rgb(20, 22, 26)")
    for scheme in ("light", "dark"):
        feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
        assert browser.execute_script(colour) == seen[scheme]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_window(browser: Browser, page: Path, width: int) -> None:
    wider = (
        "return Array.from(document.querySelectorAll('body *')).filter((node) => !node.closest('.scroll') && "
        "node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.outerHTML.slice(0, 200))"
    )
    cut = (
        "return Array.from(document.querySelectorAll('.scroll:has(.matrix, .fields)')).filter((node) => "
        "node.scrollWidth > node.clientWidth + 1).map((node) => node.outerHTML.slice(0, 200))"
    )
    rooms = [("methods",), ("methods", "client", "tools/call"), ("types", "2026-07-28", "CallToolResult")]
    for room in [*rooms, ("changes", "2024-11-05", "2026-07-28")]:
        show(browser, page, *room, width=width)
        inside, content_width = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        assert inside == width and content_width <= width, room
        assert browser.execute_script(wider) == [], room
        assert browser.execute_script(cut) == [], room


@pytest.mark.long
def test_what_a_schema_says_is_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    thing = record({HOSTILE: {"type": "string", "enum": [HOSTILE]}}, HOSTILE)
    schema = skeleton(Thing=thing, OddRequest=message("odd", {"$ref": "#/$defs/Thing"}), OddResult=record({}))
    docs = f"[types]\nThing = {json.dumps(HOSTILE)}\n"
    overlay = "\n[[capability]]\nmethod = 'odd'\nuse = ''\nreason = 'a test'\n"
    folder(tmp_path / "schema", schema, overlay, docs=docs)
    page = explored(tmp_path / "odd.html", "--schema", str(tmp_path / "schema"))
    assert page.read_text(encoding="utf-8").count("</script>") == 2
    show(browser, page, "types", "1", "Thing")
    assert HOSTILE in texts(browser, ".fields code") and HOSTILE in text(browser)
    assert browser.title == "MCP, revision by revision"
    assert browser.execute_script("return document.images.length + document.querySelectorAll('script').length") == 2
    assert console_errors(browser) == []


@pytest.mark.long
def test_the_page_reaches_for_nothing(page: Path) -> None:
    shown = unescape(page.read_text(encoding="utf-8"))
    assert "default-src 'none'" in shown and "unsafe-inline" not in shown
    markup = re.sub(r"(?s)<script type=.application/json.*?</script>", "", shown)
    assert not re.findall(r"https?://|\bfetch\(|XMLHttpRequest|@import|url\(|\bsrc=", markup)
