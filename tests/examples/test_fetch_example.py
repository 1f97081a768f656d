"""The fetch example as a child process: what it reads of a server on this machine, and where it never goes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.clients import connect
from support.project import ROOT

PAGE = b"<html><head><title>x</title></head><body><h1>Hello</h1><script>evil()</script><p>big\n world</p></body></html>"


class Pages(BaseHTTPRequestHandler):
    """A page, a text, a picture, something long, and redirects."""

    def do_GET(self) -> None:
        kind, content, place = {
            "/page": ("text/html; charset=utf-8", PAGE, ""),
            "/text?a=b": ("text/plain", b"0123456789", ""),
            "/picture": ("image/png", b"x", ""),
            "/long": ("text/plain", b"x" * ((1 << 20) + 1), ""),
            "/moved": ("text/plain", b"", "/page"),
            "/round": ("text/plain", b"", "/round"),
            "/inside": ("text/plain", b"", f"http://localhost:{self.server.server_address[1]}/page"),
            "/file": ("text/plain", b"", "file:///etc/passwd"),
        }.get(self.path, ("text/plain", b"", "?"))
        self.send_response(404 if place == "?" else 302 if place else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if place:
            self.send_header("Location", place)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is for the tests."""


@pytest.fixture
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(20)


def fetched(allow: str, *calls: dict[str, Any]) -> list[tuple[str, bool]]:
    """What the tool says to each of these arguments, and whether it failed."""

    async def conversation() -> list[tuple[str, bool]]:
        words = [sys.executable, str(ROOT / "examples" / "fetch" / "server.py")]
        results: list[tuple[str, bool]] = []
        async with connect(words, env={"FETCH_ALLOW": allow}) as client:
            for arguments in calls:
                result: Any = await client.call_tool(name="fetch", arguments=arguments)
                results.append((result.content[0].text, bool(result.is_error)))
        return results

    return asyncio.run(asyncio.wait_for(conversation(), 60))


def test_fetch_gives_the_words_of_a_page_part_by_part_and_follows_redirects(origin: str) -> None:
    text = f"{origin}/text?a=b"
    page, moved, first, rest = fetched(
        origin,
        {"url": f"{origin}/page"},
        {"url": f"{origin}/moved"},
        {"url": text, "length": 4},
        {"url": text, "start": 4},
    )
    assert page == (f"{origin}/page (text/html)\nHello\nbig world", False)
    assert moved[0].endswith("Hello\nbig world")
    assert first[0] == f"{text} (text/plain)\n0123\n[6 more characters; continue at 4]"
    assert rest[0] == f"{text} (text/plain)\n456789"


@pytest.mark.long
def test_fetch_says_why_there_is_nothing_to_give(origin: str) -> None:
    paths = ("nothing", "picture", "long", "round", "inside", "file")
    results = fetched(origin, *({"url": f"{origin}/{path}"} for path in paths))
    for (text, failed), reason in zip(
        results, ("404", "image/png", "longer", "redirects", "private address", "Only http"), strict=True
    ):
        assert failed and reason in text, text


INSIDE = (
    "http://127.0.0.1:{port}/page",
    "http://localhost:{port}/page",
    "http://[::1]:{port}/page",
    "http://[::ffff:127.0.0.1]:{port}/page",
    "http://2130706433:{port}/page",
    "http://0.0.0.0:{port}/page",
    "http://127.1:{port}/page",
    "http://10.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[64:ff9b::7f00:1]/",
    "http://[fe80::1]/",
    "http://224.0.0.1/",
)


@pytest.mark.long
def test_fetch_never_goes_to_a_machine_that_is_not_public_however_it_is_written(origin: str) -> None:
    port = origin.rpartition(":")[2]
    for text, failed in fetched("", *({"url": url.format(port=port)} for url in INSIDE)):
        # Some resolvers do not know some of these spellings, and then there is no address to go to either.
        assert failed and ("private address" in text or "Name or service" in text or "nodename" in text), text


@pytest.mark.long
def test_fetch_takes_http_urls_alone(origin: str) -> None:
    urls = ("file:///etc/passwd", "ftp://example.com/", "http://user:word@127.0.0.1/", "http:///x", "http://a:b/", "x")
    for text, failed in fetched(origin, *({"url": url} for url in urls)):
        assert failed and ("Only http" in text or "not a URL" in text), text
    [(text, failed)] = fetched(origin, {"url": f"{origin}/page\r\nX: y"})
    assert failed and "Hello" not in text
