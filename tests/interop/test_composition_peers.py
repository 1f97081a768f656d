"""One app whose parts are composed serves clients of all revisions, the official SDKs, FastMCP's client and the
Inspector, over stdio and HTTP: dependencies, middleware, visibility, time-outs, changed tools, ready resources, routes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from functools import cache
from typing import Any

import httpx2
import pytest
from conformance.wires import served
from support.endpoints import ALL_REVISIONS, Rev
from support.peers import driven, node_peer, python_peer
from support.processes import end_with_session
from support.project import ROOT

from mcp_generated import connect

SERVERS = ROOT / "tests" / "support" / "servers"
COMPOSITION, CONTEXT = str(SERVERS / "composition.py"), str(SERVERS / "context.py")
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
FASTMCP = "fastmcp==4.1.2"
SDKS = [("mcp==1.30.0", rev.id) for rev in ALL_REVISIONS if not rev.stateless] + [
    ("mcp==2.3.0", rev.id) for rev in ALL_REVISIONS
]
TOOLS = ["price", "greet", "wait", "unlock", "cost"]
CALLS: dict[str, dict[str, Any]] = {
    "price": {"item": "tea"},
    "cost": {"thing": "tea"},
    **{name: {} for name in ("wait", "delete_all", "secret", "greet", "unlock")},
}
CONTEXT_CALLS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("log_all", "own", "write_text", "by_session")},
    "fill_in": {"shape": "model"},
}
TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])


@cache
def origin(program: str) -> str:
    """Return where a server of this process serves over HTTP."""
    process, url = served((program, "http"), "an app of peers")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url


def target(program: str, transport: str, version: str) -> list[str]:
    """Return the command or the URL of a server."""
    if transport == "http":
        return [origin(program) + ("/mcp" if version >= "2025-03-26" else "/sse")]
    path = os.environ.get("PYTHONPATH")
    return [*(["env", f"PYTHONPATH={path}"] if path else []), sys.executable, program]


def text_of(result: Any) -> str:
    """Return the text of a tool's result, which may be an error."""
    assert "content" in result, result
    return str(result["content"][0]["text"])


def check(seen: dict[str, Any], version: str, transport: str) -> None:
    """Check what a client has received."""
    calls, newest = seen["calls"], ALL_REVISIONS[-1].id
    assert seen["before"] == TOOLS
    assert text_of(calls["price"]) == text_of(calls["cost"]) == "3 EUR"
    assert calls["wait"]["isError"] is True and "timed out after 0.05 s" in text_of(calls["wait"])
    assert calls["delete_all"]["isError"] is True and text_of(calls["delete_all"]) == "nothing is deleted today"
    assert "error" in calls["secret"] or calls["secret"]["isError"] is True
    if version >= "2025-06-18":
        assert text_of(calls["greet"]).startswith("Hello ")
    else:
        assert calls["greet"]["isError"] is True and version in text_of(calls["greet"])
    if transport == "stdio" or version != newest:
        assert text_of(calls["unlock"]) == "unlocked"
        assert sorted(seen["after"]) == sorted([*TOOLS, "secret"])
    else:  # A stateless endpoint has no session in which an anonymous client could enable anything.
        assert "error" in calls["unlock"] or calls["unlock"]["isError"] is True
        assert seen["after"] == TOOLS


def check_parts(seen: dict[str, Any]) -> None:
    """Check the resource and the prompt that an official client has received."""
    assert seen["resource"]["contents"][0]["text"] == "a note"
    assert seen["prompt"]["messages"][0]["content"]["text"] == "Is 3 EUR too much for tea?"


def answering(rev: Rev) -> Any:
    """Return a client class of a revision that fills forms in, where the revision has them."""

    async def on_elicit(self: Any, ctx: Any, params: Any) -> Any:
        return rev.t.ElicitResult(action="accept", content={"name": "Ann"})

    members = {"on_elicit": on_elicit} if hasattr(rev.t, "ElicitResult") else {}
    return type("Answering", (rev.package.Client,), members)


async def outcome(client: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Return the result of a call as JSON, or its error."""
    try:
        result = await client.call_tool(name, arguments)
    except Exception as error:
        return {"error": str(error)}
    return result.model_dump(mode="json", by_alias=True)


@TRANSPORTS
@pytest.mark.parametrize(
    "rev",
    [pytest.param(rev, marks=[] if rev in ALL_REVISIONS[:1] else [pytest.mark.long]) for rev in ALL_REVISIONS],
    ids=str,
)
async def test_the_client_of_each_revision_uses_it(rev: Rev, transport: str) -> None:
    words = target(COMPOSITION, transport, rev.id)
    async with connect(
        words if transport == "stdio" else words[0], client=answering(rev), revisions=[rev.id]
    ) as client:
        seen: dict[str, Any] = {"before": [tool.name for tool in (await client.list_tools()).tools]}
        seen["calls"] = {name: await outcome(client, name, values) for name, values in CALLS.items()}
        seen["after"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["resource"] = (await client.read_resource("note://text")).model_dump(mode="json", by_alias=True)
        prompt = await client.get_prompt("question", {"thing": "tea"})
        seen["prompt"] = prompt.model_dump(mode="json", by_alias=True)
        assert client.server.name == "composition"
        assert client.server.title == ("Composition" if rev.id >= "2025-06-18" else None)
    check(seen, rev.id, transport)
    check_parts(seen)


def test_a_route_of_its_own_is_served_beside_it() -> None:
    response = httpx2.get(f"{origin(COMPOSITION)}/health")
    assert (response.status_code, response.text) == (200, "well")


@pytest.mark.long
@TRANSPORTS
@pytest.mark.parametrize(("sdk", "version"), SDKS)
def test_the_official_client_uses_it(sdk: str, version: str, transport: str) -> None:
    seen = driven(
        python_peer(sdk), "python_composition.py", json.dumps(CALLS), version, *target(COMPOSITION, transport, version)
    )
    check(seen, version, transport)
    check_parts(seen)


@pytest.mark.long
@TRANSPORTS
def test_the_client_of_fastmcp_uses_it(transport: str) -> None:
    newest = ALL_REVISIONS[-1].id
    seen = driven(
        python_peer(FASTMCP), "fastmcp_composition.py", json.dumps(CALLS), *target(COMPOSITION, transport, newest)
    )
    version = ALL_REVISIONS[-2].id if "secret" in seen["after"] else newest
    check(seen, version, transport)
    assert (seen["resource"], seen["prompt"]) == ("a note", "Is 3 EUR too much for tea?")


@pytest.mark.long
@TRANSPORTS
def test_the_client_of_fastmcp_uses_the_context(transport: str) -> None:
    newest = ALL_REVISIONS[-1].id
    calls = driven(
        python_peer(FASTMCP), "fastmcp_composition.py", json.dumps(CONTEXT_CALLS), *target(CONTEXT, transport, newest)
    )["calls"]
    assert text_of(calls["log_all"]) == "logged"
    assert json.loads(text_of(calls["own"]))["text"] == ["a note", "text/plain"]
    assert text_of(calls["write_text"]) == "HELLO"
    assert json.loads(text_of(calls["by_session"]))["text"] == "HELLO"
    assert json.loads(text_of(calls["fill_in"]))["type"] == "Booking"


def inspected(program: str, transport: str, *options: str) -> Any:
    """Return what the Inspector prints for a method."""
    command = ["npx", "--no", "--", INSPECTOR.rpartition("@")[0], "--cli", *target(program, transport, "2025-11-25")]
    done = subprocess.run(
        [*command, "--method", *options],
        cwd=node_peer(INSPECTOR),
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "npm_config_update_notifier": "false"},
    )
    assert done.stdout.strip(), done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
@TRANSPORTS
def test_the_inspector_uses_it(transport: str) -> None:
    def call(name: str, *arguments: str) -> Any:
        words = [word for argument in arguments for word in ("--tool-arg", argument)]
        return inspected(COMPOSITION, transport, "tools/call", "--tool-name", name, *words)

    assert [tool["name"] for tool in inspected(COMPOSITION, transport, "tools/list")["tools"]] == TOOLS
    assert text_of(call("price", "item=tea")) == text_of(call("cost", "thing=tea")) == "3 EUR"
    assert "timed out after 0.05 s" in text_of(call("wait"))
    read = inspected(COMPOSITION, transport, "resources/read", "--uri", "note://text")
    assert read["contents"][0]["text"] == "a note"
    prompt = inspected(COMPOSITION, transport, "prompts/get", "--prompt-name", "question", "--prompt-args", "thing=tea")
    assert prompt["messages"][0]["content"]["text"] == "Is 3 EUR too much for tea?"


@pytest.mark.long
@TRANSPORTS
def test_the_inspector_uses_the_context(transport: str) -> None:
    for name, expected in (("log_all", "logged"), ("forget", "object")):
        assert text_of(inspected(CONTEXT, transport, "tools/call", "--tool-name", name)) == expected
    own = json.loads(text_of(inspected(CONTEXT, transport, "tools/call", "--tool-name", "own")))
    assert own["text"] == ["a note", "text/plain"]
