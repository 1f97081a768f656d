"""The page of a gateway in the browser: what it shows, who gets it, and how it looks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.browsers import Browser, chromium
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import listening, with_our_packages
from support.peers import node_peer

from mcp_generated import Gateway, LocalError

PACKAGES = ":".join(path for path in sys.path if path)
EVIL = "<img src=x onerror=document.title=1>"
SERVER = f"""
import sys
from mcp_generated import App

app = App("files")

@app.tool
def read(path: str) -> str:
    "Read a file."
    if path == "fail":
        raise SystemExit(3)
    return "x" * 100

@app.prompt(name={EVIL!r})
def question() -> str:
    return "?"

app.run(revisions=sys.argv[1:] or "all")
"""


def settings(**gateway: Any) -> dict[str, Any]:
    """Return the settings of a gateway with a page, before an old server and one that does not start."""
    env = {"PYTHONPATH": PACKAGES}
    files = {"command": sys.executable, "args": ["-c", SERVER, "2025-06-18"], "env": env}
    broken = {"command": sys.executable, "args": ["-IS", "-c", f"raise SystemExit({EVIL!r})"]}
    return {"gateway": {"name": "office", "page": "/page", **gateway}, "upstreams": {"files": files, "broken": broken}}


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    """Yield a gateway with routes, and a browser of this machine."""
    gateway = Gateway(settings())
    gateway._add_routes()
    transport = httpx2.ASGITransport(app=gateway.app.asgi(path="/mcp"), client=("127.0.0.1", 5))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as web:
        try:
            yield gateway, web
        finally:
            assert gateway._records is not None
            gateway._records.end()


@pytest.mark.long
async def test_the_page_has_the_state_of_servers_calls_and_the_log_without_arguments_and_results() -> None:
    async with served() as (gateway, web):
        async with connect(gateway.app) as client:
            before = (await web.get("/page/data")).json()
            assert [item["lists"] for item in before["upstreams"]] == [{}, {}] and before["calls"] == []
            await client.list_tools()
            await client.list_prompts()
            tokens = (await web.get("/page/data")).json()["upstreams"][0]["tokens"]
            assert 0 < tokens["signatures"] < tokens["now"] == tokens["shorter_descriptions"] == tokens["code_mode"]
            await client.call_tool("files_read", {"path": "a secret"})
            waiting = asyncio.ensure_future(client.call_tool("broken_x", {}))
            await asyncio.wait([waiting])
            assert waiting.exception() is not None
            state = (await web.get("/page/data")).json()
        assert [item["state"] for item in state["upstreams"]] == ["ok", "failed"]
        assert state["upstreams"][0]["lists"]["tools"] == ["read"]
        assert state["upstreams"][0]["lists"]["prompts"] == [EVIL]
        failed, done = state["calls"]
        assert (done["upstream"], done["name"], done["outcome"]) == ("files", "read", "done")
        assert done["size"] > 100 and done["seconds"] > 0 and "arguments" not in done
        assert (failed["upstream"], failed["outcome"], failed["size"]) == ("broken", "failed", None)
        assert state["running"] == [] and state["alarms"] == []
        assert any("'broken'" in line["text"] for line in state["log"])
        assert "a secret" not in json.dumps(state) and "x" * 50 not in json.dumps(state)


@pytest.mark.long
async def test_what_conversions_lose_is_counted_by_rule() -> None:
    async with served() as (gateway, web):
        async with connect(gateway.app, revisions=["2024-11-05"]) as client:
            await client.list_tools()
            losses = (await web.get("/page/data")).json()["losses"]
    assert losses and all(isinstance(count, int) and count > 0 and rule for rule, count in losses.items())


async def test_the_page_loads_nothing_and_runs_only_its_own_script() -> None:
    async with served() as (_, web):
        page = await web.get("/page")
    policy = page.headers["content-security-policy"]
    (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.S)
    (style,) = re.findall(r"<style>(.*?)</style>", page.text, re.S)
    for part in (script, style):
        assert f"'sha256-{b64encode(hashlib.sha256(part.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy
    assert not re.search(r"(src|href)=\"(?!data:,)", page.text) and "innerHTML" not in script
    assert page.headers["cache-control"] == "no-store" and "access-control-allow-origin" not in page.headers


REFUSED: list[dict[str, str]] = [
    {"host": "evil.example"},
    {"host": "evil.example:8000"},
    {"host": "127.0.0.1.evil.example"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"x-forwarded-for": "203.0.113.1"},
    {"forwarded": "for=203.0.113.1"},
]


@pytest.mark.parametrize("headers", REFUSED, ids=str)
@pytest.mark.parametrize("path", ["/page", "/page/data"])
async def test_other_machines_pages_and_names_get_nothing(path: str, headers: dict[str, str]) -> None:
    async with served() as (gateway, web):
        assert (await web.get(path)).status_code == 200
        refused = await web.get(path, headers=headers)
        assert refused.status_code == 403 and "office" not in refused.text
        far = httpx2.ASGITransport(app=gateway.app.asgi(path="/mcp"), client=("203.0.113.1", 5))
        async with httpx2.AsyncClient(transport=far, base_url="http://127.0.0.1:8000") as other:
            assert (await other.get(path)).status_code == 403
        assert (await web.post(path)).status_code == 405


def test_a_page_that_is_no_path_is_refused() -> None:
    with pytest.raises(LocalError, match='write page = "/page"'):
        Gateway(settings(page="page"))


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where a gateway serves, after some calls."""
    file: Path = tmp_path_factory.mktemp("page") / "gateway.toml"
    tables = settings()
    lines = ['[gateway]\nname = "office"\npage = "/page"']
    for name, table in tables["upstreams"].items():
        env = "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.get("env", {}).items()) + " }"
        words = f"command = {json.dumps(table['command'])}\nargs = {json.dumps(table['args'])}"
        lines.append(f"[upstreams.{name}]\n{words}\nenv = {env}")
    file.write_text("\n".join(lines), encoding="utf-8")
    command = with_our_packages(sys.executable, "-m", "mcp_products.relay.gateway", "--http", "127.0.0.1:0", str(file))
    return listening(command)


async def use(origin: str, count: int) -> None:
    """List what the gateway has, and make calls."""
    async with connect(f"{origin}/mcp") as client:
        await client.list_tools()
        await client.list_prompts()
        for _ in range(count):
            await client.call_tool("files_read", {"path": "a"})


def show(browser: Browser, width: int, scheme: str) -> None:
    """Give the window a width and a colour scheme: the page follows without being loaded again."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


async def until(browser: Browser, script: str) -> None:
    """Wait until a script returns true."""
    async with asyncio.timeout(30):
        while not browser.execute_script(f"return {script}"):
            await asyncio.sleep(0.05)


@pytest.mark.long
@pytest.mark.deadline(120)
async def test_the_page_is_live_and_readable_at_any_width_in_light_and_dark(
    browser: Browser, origin: str, tmp_path: Path
) -> None:
    await use(origin, 3)
    axe = (node_peer("axe-core@4.14.1") / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    looks = [(width, scheme) for width in (400, 1600) for scheme in ("dark", "light")]
    browser.get(f"{origin}/page")
    await until(browser, "document.querySelectorAll('#calls tr').length >= 3")
    assert browser.title == "office", "a name of a server ran as a script"
    assert browser.execute_script("return document.images.length") == 0
    assert EVIL in browser.execute_script("return document.body.innerText")
    for width, scheme in looks:
        show(browser, width, scheme)
        wide = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert browser.execute_script(wide), f"wider than {width} pixels"
        browser.save_screenshot(str(tmp_path / f"gateway-{width}-{scheme}.png"))
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})  # For axe, whose script the policy does not allow.
    browser.get(f"{origin}/page")
    await until(browser, "document.querySelectorAll('#calls tr').length >= 3")
    browser.execute_script(axe)
    for width, scheme in looks:
        show(browser, width, scheme)
        result = browser.execute_async_script("const done = arguments[0]; axe.run(document).then(done, done)")
        assert result["passes"] and [item["id"] for item in result["violations"]] == [], (width, scheme)
    count = browser.execute_script("return document.querySelectorAll('#calls tr').length")
    await use(origin, 2)
    await until(browser, f"document.querySelectorAll('#calls tr').length === {count + 2}")
