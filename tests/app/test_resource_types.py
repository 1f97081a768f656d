"""Resources from texts, bytes, files, folders and HTTP, as the official SDK has them."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.installation.extras import needs

from mcp_generated import App, BinaryResource, DirectoryResource, FileResource, HttpResource, LocalError, TextResource


async def content_of(resource: Any) -> Any:
    app = App("library")
    app.add_resource(resource)
    [listed] = await app.list_resources()
    [content] = (await app.read_resource(resource.uri)).contents
    assert (listed.uri, listed.mime_type) == (content.uri, content.mime_type) == (resource.uri, resource.mime_type)
    return content


async def test_a_text_and_bytes() -> None:
    assert (await content_of(TextResource(uri="a://t", text="hä"))).text == "hä"
    assert (await content_of(BinaryResource(uri="a://b", data=b"\0\1", mime_type="image/png"))).blob == "AAE="


async def test_a_definition_has_what_the_resource_says() -> None:
    app = App("library")
    app.add_resource(TextResource(uri="a://t", text="x", name="n", title="T", description="D", meta={"k": 1}))
    app.add_resource(TextResource(uri="a://u", text="x"))
    first, second = await app.list_resources()
    assert (first.name, first.title, first.description) == ("n", "T", "D")
    assert (second.name, second.description) == ("a://u", None)


async def test_a_file_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    app = App("library")
    app.add_resource(FileResource(uri="a://f", path=file, mime_type="text/markdown"))
    for text in ("one", "zwei ä"):
        file.write_text(text, encoding="utf-8")
        [content] = (await app.read_resource("a://f")).contents
        assert content.text == text


@pytest.mark.parametrize("settings", [{"mime_type": "image/png"}, {"is_binary": True}, {"encoding": None}])
async def test_a_file_that_is_no_text_is_a_blob(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "a").write_bytes(b"\xff")
    assert (await content_of(FileResource(uri="a://f", path=tmp_path / "a", **settings))).blob == "/w=="


@pytest.mark.parametrize("settings", [{"encoding": "latin-1"}, {"mime_type": "text/plain; charset=latin-1"}])
async def test_a_file_has_the_encoding_of_its_type(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "a").write_bytes(b"\xe4")
    assert (await content_of(FileResource(uri="a://f", path=tmp_path / "a", **settings))).text == "ä"


async def test_a_folder_lists_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "inner").mkdir(parents=True)
    for name in ("b.md", "a.md", "c.txt", "inner/d.md"):
        (folder / name).write_text("")
    (tmp_path / "secret.md").write_text("")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    for settings, names in (
        ({}, ["a.md", "b.md", "c.txt"]),
        ({"pattern": "*.md"}, ["a.md", "b.md"]),
        ({"pattern": "*.md", "recursive": True}, ["a.md", "b.md", "inner/d.md"]),
    ):
        content = await content_of(DirectoryResource(uri="a://d", path=folder, **settings))
        assert json.loads(content.text) == {"files": names}


@needs("http")
async def test_the_response_of_an_http_server() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"path": "%s"}' % self.path.encode())

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/x"
        assert (await content_of(HttpResource(uri="a://h", url=url))).text == '{"path": "/x"}'
        server.shutdown()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: FileResource(uri="a://f", path="a.md"), r"path='a.md' must be absolute; write path=Path\('a.md'\)"),
        (lambda: DirectoryResource(uri="a://f", path="a"), "must be absolute"),
        (
            lambda: FileResource(uri="a://f", path=os.path.abspath("a"), encoding="utf-99"),
            "encoding='utf-99' is unknown",
        ),
        (lambda: HttpResource(uri="a://f", url="example.com"), "must begin with"),
        (lambda: TextResource(uri="a://f", text=b"x"), r"TextResource\(\): text must be a string; b'x' is not"),  # type: ignore[arg-type]
        (lambda: BinaryResource(uri="a://f", data="x"), "data must be bytes, such as .* a text is a TextResource"),  # type: ignore[arg-type]
        (lambda: FileResource(uri="a://f", path=5), "path must be an absolute path, such as .*; 5 is not"),  # type: ignore[arg-type]
        (lambda: HttpResource(uri="a://f", url=None), "url must be a string; None is not"),  # type: ignore[arg-type]
        (lambda: App("x").add_resource("a://f"), "pass a function, or TextResource"),  # type: ignore[call-overload]
        (lambda: App("x").add_resource(TextResource(uri="no scheme", text="")), "has no scheme"),
    ],
)
def test_a_resource_that_cannot_be_is_refused_with_the_remedy(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        wrong()
