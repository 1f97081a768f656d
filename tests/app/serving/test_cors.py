"""`origins=`: pages of these origins use the server in a browser, with the official TypeScript client."""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.browsers import DEADLINE, chromium
from support.http.sockets import listening
from support.peers import node_peer
from support.project import ROOT

from mcp_generated import App, Context

ORIGIN = "https://page.example.com"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,mcp-param-x"}


def counter() -> App:
    app = App("counter")

    @app.tool()
    async def add(ctx: Context, a: int, b: int) -> int:
        await ctx.progress(1, 2)
        return a + b

    return app


async def response(origins: Any, method: str, origin: str | None, **headers: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(counter().asgi(origins=origins))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        sent = headers if origin is None else {**headers, "origin": origin}
        return await client.request(method, "/mcp", json={} if method == "POST" else None, headers=sent)


@pytest.mark.parametrize(
    ("origins", "origin"), [([ORIGIN], ORIGIN), (["*"], ORIGIN), (["http://localhost:1"], "http://localhost:1")]
)
async def test_a_preflight_request_is_answered(origins: list[str], origin: str) -> None:
    seen = await response(origins, "OPTIONS", origin, **PREFLIGHT)
    assert (seen.status_code, seen.content) == (204, b"")
    assert seen.headers["access-control-allow-origin"] == origin
    assert seen.headers["access-control-allow-methods"] == "GET, POST, DELETE"
    assert seen.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
    assert "origin" in seen.headers["vary"]
    assert "access-control-allow-credentials" not in seen.headers


async def test_pages_may_read_responses_and_the_session_id_also_of_errors() -> None:
    seen = await response([ORIGIN], "POST", ORIGIN)
    assert seen.status_code >= 400
    assert seen.headers["access-control-allow-origin"] == ORIGIN
    assert {"Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate"} <= {
        *seen.headers["access-control-expose-headers"].split(", ")
    }


@pytest.mark.parametrize(
    ("origins", "origin"),
    [
        ([ORIGIN], "https://evil.example.com"),
        ([ORIGIN], "http://localhost:5"),
        (None, "http://localhost:5"),
        (None, ORIGIN),
        ([ORIGIN], None),
    ],
)
@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
async def test_pages_of_other_origins_may_read_nothing(origins: Any, origin: str | None, method: str) -> None:
    seen = await response(origins, method, origin, **(PREFLIGHT if method == "OPTIONS" else {}))
    assert "access-control-allow-origin" not in seen.headers
    if origin in (ORIGIN, "https://evil.example.com"):
        assert seen.status_code == 403


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a page that runs the official client."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not on the PATH: the official client cannot be bundled")
    bundler, sdk = node_peer("esbuild@0.28.2"), node_peer("@modelcontextprotocol/sdk@1.32.2")
    folder = tmp_path_factory.mktemp("page")
    (folder / "node_modules").symlink_to(sdk / "node_modules")
    shutil.copy(ROOT / "tests" / "support" / "browser_pages" / "official_client.ts", folder / "client.ts")
    command = [
        bundler / "node_modules" / ".bin" / "esbuild",
        "client.ts",
        "--bundle",
        "--format=esm",
        "--outfile=client.js",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (folder / "index.html").write_text('<!doctype html><title></title><script type="module" src="client.js"></script>')
    return folder


@contextmanager
def serving_files(folder: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def visit(page_url: str, server_url: str) -> dict[str, Any]:
    """What the page sees."""
    from selenium.webdriver.support.wait import WebDriverWait

    with chromium() as browser:
        browser.get(f"{page_url}/index.html#{server_url}")
        WebDriverWait(browser, DEADLINE).until(lambda seen: seen.title.startswith("{"))
        seen: dict[str, Any] = json.loads(browser.title)
        return seen


@pytest.mark.long
@pytest.mark.deadline(240)
async def test_a_page_in_chromium_uses_the_official_client(page: Path) -> None:
    import asyncio

    with serving_files(page) as url:
        async with listening(counter().asgi(path="/mcp", origins=[url])) as port:
            seen = await asyncio.to_thread(visit, url, f"http://127.0.0.1:{port}/mcp")
        assert seen == {"text": "3", "progress": [1], "session": True}
        async with listening(counter().asgi(path="/mcp")) as port:
            assert "Failed to fetch" in (await asyncio.to_thread(visit, url, f"http://127.0.0.1:{port}/mcp"))["error"]
