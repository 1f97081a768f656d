"""What a gateway keeps and writes of calls has a size, whatever clients and servers send."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Gateway, RemoteJSONRPCError
from mcp_generated.middleware import DetailedTimingMiddleware, ErrorHandlingMiddleware, LoggingMiddleware
from mcp_products.relay.upstream.translation import LossCounter
from mcp_products.telemetry.spans import target_of

LONG = "x" * 300_000
PACKAGES = ":".join(path for path in sys.path if path)
SERVER = f"""
from mcp_generated import App
from mcp_runtime.errors import JSONRPCError

app = App("files")

@app.tool
def fail() -> str:
    raise JSONRPCError(-32000, "y" * 300_000)

@app.tool
def pay() -> str:
    return "paid"

@app.prompt(name={"p" * 5000!r})
def question() -> str:
    return "?"

app.run()
"""


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Return the settings of a gateway with an audit log and a page."""
    files = {"command": sys.executable, "args": ["-c", SERVER], "env": {"PYTHONPATH": PACKAGES}, **more}
    return {"gateway": {"audit": str(folder / "audit.jsonl"), "page": "/page"}, "upstreams": {"files": files}}


async def refused(request: Any) -> str:
    """Return the message of the error of a request."""
    with pytest.raises(RemoteJSONRPCError) as error:
        await request
    return error.value.message


async def test_refused_calls_with_long_names_leave_little_in_page_audit_log_and_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gateway = Gateway(settings(tmp_path, allow=[], prompts=False, resources=False))
    async with connect(gateway.app) as client:
        requests = {
            "tool": lambda name: client.call_tool(f"files_{name}", {"argument": name}),
            "prompt": lambda name: client.get_prompt(f"files_{name}", {"argument": name}),
            "resource": lambda name: client.read_resource(f"note://files/{name}"),
            "owner": lambda name: client.call_tool(name, {}),
            "prompt of nobody": lambda name: client.get_prompt(name, {}),
            "resource of nobody": lambda name: client.read_resource(f"note://{name}"),
        }
        for kind, request in requests.items():
            for number in range(3):
                assert len(await refused(request(f"{number}{LONG}"))) < 1000, kind
    assert gateway._records is not None
    shown = gateway._records.shown()
    assert len(shown["calls"]) == 9 and "… (300,0" in shown["calls"][0]["name"]
    assert len(json.dumps(shown)) < 20_000
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert len(lines) == 9 and max(map(len, lines)) < 1000
    assert max(len(record.getMessage()) for record in caplog.records) < 2000


@pytest.mark.long
async def test_long_texts_of_a_server_are_shortened_in_page_and_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Gateway(settings(tmp_path))
    async with connect(gateway.app) as client:
        await client.list_prompts()
        with pytest.raises(RemoteJSONRPCError):
            await client.call_tool("files_fail", {})
    assert gateway._records is not None
    assert len(json.dumps(gateway._page_state())) < 6000
    assert len((tmp_path / "audit.jsonl").read_text()) < 1000


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_only_the_user_of_the_gateway_reads_an_audit_log_that_it_creates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    Gateway(settings(tmp_path))._audit.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and not caplog.records
    path.chmod(0o644)
    Gateway(settings(tmp_path))._audit.close()
    assert f"others can read the audit log {path}: run chmod 600 on it" in caplog.text


async def test_errors_of_an_app_repeat_little_of_a_long_name() -> None:
    app = App("x")
    app.tool(lambda: "1", name="one", description="One.")
    app.prompt(lambda: "?", name="ask")
    app.resource("note://{name}/text")(lambda name: name)
    app.completion(lambda ref, argument, context: [])
    async with connect(app) as client:
        for request in (
            client.call_tool(LONG, {}),
            client.get_prompt(LONG, {}),
            client.read_resource(f"other://{LONG}"),
            client.complete({"type": "ref/prompt", "name": LONG}, {"name": "a", "value": ""}),
        ):
            assert len(await refused(request)) < 1000


async def test_lines_of_logs_and_attributes_of_traces_have_a_size(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_runtime")
    middleware = [DetailedTimingMiddleware(), LoggingMiddleware(), ErrorHandlingMiddleware()]
    app = App("x", middleware=middleware)
    app.prompt(lambda: "?", name="ask")
    app.tool(lambda: "1", name="one", description="One.")

    @app.resource("note://{name}")
    def note(name: str) -> str:
        raise ValueError(name)

    async with connect(app) as client:
        for request in (
            client.call_tool(LONG, {}),
            client.get_prompt(LONG, {}),
            client.read_resource(f"note://{LONG}"),
        ):
            await refused(request)
    lines = [record.getMessage() for record in caplog.records if "wire" not in record.name]
    assert len(lines) > 6
    assert [line[:300] for line in lines if len(line) > 5000] == []
    for params in ({"name": LONG}, {"uri": LONG}):
        name, attributes = target_of("tools/call", params)
        assert len(name or "") < 300 and max(len(value) for value in attributes.values()) < 300
    losses = LossCounter()
    for number in range(50):
        losses.add(f"{number % 2} {LONG}", LONG)
    assert len(losses.counts) == 2 and max(map(len, losses.counts)) < 300


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full on this system")
async def test_a_call_that_has_run_is_answered_though_the_disk_of_the_audit_log_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = settings(tmp_path)
    table["gateway"]["audit"] = "/dev/full"
    async with connect(Gateway(table).app) as client:
        for _ in range(2):
            result: Any = await client.call_tool("files_pay", {})
            assert result.content[0].text == "paid"
        assert "unknown tool" in await refused(client.call_tool("files_none", {}))
    [said] = [text for text in caplog.messages if "audit log" in text]
    assert "the audit log /dev/full cannot be written: No space left on device" in said
