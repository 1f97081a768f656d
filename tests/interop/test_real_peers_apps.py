"""The official app talks to our host, and our app to the official host: the package of the extension, under Node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.peers import clean, node_peer
from support.project import PEER_DRIVERS
from support.view import HOST, View, text_of

from mcp_generated.extensions.apps import types as t
from mcp_runtime.errors import ProtocolViolationError

pytestmark = pytest.mark.long

PACKAGE = "@modelcontextprotocol/ext-apps"
DRIVER = PEER_DRIVERS / "apps.mjs"
WAIT = 120


@pytest.fixture(scope="module")
def official() -> Path:
    return node_peer(f"{PACKAGE}@2.0.4") / "node_modules" / PACKAGE


def test_the_official_app_talks_to_our_host(official: Path) -> None:
    command = ["node", str(DRIVER), str(official), "app", sys.executable, HOST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, env=clean())
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {
        "host": "window",
        "theme": "dark",
        "capabilities": ["message", "openLinks", "serverTools"],
        "shown": ["Rome", "sunny"],
        "opened": False,
        "refused": True,
        "ran": "forecast ran",
        "asked": "here",
        "mode": "inline",
        "message": {},
        "exit": 0,
    }


async def test_our_app_talks_to_the_official_host(official: Path) -> None:
    async with View.stdio("node", str(DRIVER), str(official), "host", name="view", version="1") as app:
        opened = app.server
        assert isinstance(opened, t.McpUiInitializeResult)
        assert (opened.host_info.name, opened.host_context.theme) == ("official", "light")
        await app.done.wait()
        assert app.shown == ["Rome", "sunny"]
        assert (await app.open_link(url="https://example.org/")).is_error is False
        assert (await app.open_link(url="file:///etc/passwd")).is_error is True
        assert text_of(await app.call_tool(name="forecast")) == "forecast ran"
        assert text_of(await app.call_tool(name="ask-the-app")) == "here"
        assert (await app.request_display_mode(mode="fullscreen")).mode == "inline"
        await app.message(role="user", content=[t.TextContent(text="and tomorrow?")])
        await app.notify_logging_message(level="info", data="careful")
        with pytest.raises(ProtocolViolationError, match="server.sampling"):
            await app.sample(messages=[], max_tokens=1)
        await app.ping()
