"""The rules of a gateway hold for each message that names a thing: none about what is closed reaches its server."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, Wire, among, wire_to
from support.matrices import long_after
from support.project import SERVERS

from mcp_generated import Gateway
from mcp_products.app.components.named_things import names_things
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.protocol.revision import Notification

pytestmark = pytest.mark.deadline(120)

WAYWARD = str(SERVERS / "wayward.py")
RECORDED = f"""
import runpy, sys
sys.stderr = open(sys.argv[1], "a")
sys.argv = sys.argv[:1]
runpy.run_path({WAYWARD!r}, run_name="__main__")
"""
ARGUMENT = {"name": "x", "value": ""}


class Upstream:
    """A server that writes what it gets to a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.log"
        self.file.touch()

    def table(self, **more: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-c", RECORDED, str(self.file)], **more}

    def named(self) -> list[str]:
        """The messages about tools, prompts and resources that it got, without lists."""
        lines = self.file.read_text().splitlines()
        about = [line for line in lines if any(word in line for word in ('"name":', '"uri":', "ref/"))]
        return [line for line in about if line.split()[0] not in ("initialize", "server/discover")]


def messages(rev: Rev, name: str, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The method and the params of each message of a revision that names a thing of a server behind a prefix.

    `name` is the name inside: what is a prompt, a tool, a resource and a template alike.
    """
    own = f"{prefix}_{name}" if prefix else name
    place = f"{prefix}/{name}" if prefix else name
    params: dict[str, list[dict[str, Any]]] = {
        "call_tool": [{"name": own, "arguments": {}}],
        "get_prompt": [{"name": own}],
        "read_resource": [{"uri": f"note://{place}"}, {"uri": f"all://{place}/b"}],
        "subscribe": [{"uri": f"note://{place}"}, {"uri": f"all://{place}/b"}],
        "complete": [
            {"ref": {"type": "ref/prompt", "name": own}, "argument": ARGUMENT},
            {"ref": {"type": "ref/resource", "uri": f"all://{place}/{{x}}"}, "argument": ARGUMENT},
        ],
        "subscriptions_listen": [{"notifications": {"resourceSubscriptions": [f"note://{place}"]}}],
    }
    for row in rev.revision.rows:
        if (
            row.direction != "client_to_server"
            or isinstance(row, Notification)
            or row.name.endswith(("task", "payload"))
        ):
            continue
        if row.params is not None and names_things(row.name, row.params):
            yield from ((row.method, fields) for fields in params[row.name])


@asynccontextmanager
async def clients(rev: Rev, settings: dict[str, Any]) -> AsyncIterator[Wire]:
    """Yield a raw client of a gateway."""
    gateway = Gateway(settings)
    servers = [candidate.get() for candidate in server_candidates(gateway.app.server, "all")]
    async with wire_to(*servers, opened=rev) as wire:
        yield wire


async def outcome(wire: Wire, rev: Rev, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, or the acknowledgement of a stream."""
    wire.send(rev.request("one", method, params))
    while True:
        message: dict[str, Any] = await wire.receive()
        if message.get("id") == "one" or "acknowledged" in message.get("method", ""):
            return message


RULES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "resources": ({"resources": False}, ("resources/", "subscriptions/", "ref/resource")),
    "prompts": ({"prompts": False}, ("prompts/", "ref/prompt")),
    "denied tool": ({"deny": ["own"]}, ("tools/",)),
    "hidden tool": ({"tools": {"own": {"hidden": True}}}, ("tools/",)),
    "not allowed tool": ({"allow": ["other"]}, ("tools/",)),
    "nothing": ({}, ()),
}


@among(ALL_REVISIONS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prefix", long_after(1, ["web", ""]))
async def test_no_message_about_what_is_closed_reaches_a_server(
    rev: Rev, rule: str, prefix: str, tmp_path: Path
) -> None:
    settings, closed = RULES[rule]
    server, other = Upstream(tmp_path, "own"), Upstream(tmp_path, "other")
    others = {"prefix": "" if prefix else "other"}
    upstreams = {"web": server.table(prefix=prefix, **settings), "other": other.table(**others)}
    for method, params in messages(rev, "own", prefix):
        async with clients(rev, {"upstreams": upstreams}) as wire:
            answer = await outcome(wire, rev, method, params)
        is_closed = any(word in f"{method} {json.dumps(params)}" for word in closed)
        assert ("error" in answer) == is_closed, (method, params, answer)
        assert bool(server.named()) != is_closed, (method, params, server.named())
        assert other.named() == [], "what one server has by its prefix is no other's"
        server.file.write_text("")


@among(ALL_REVISIONS)
async def test_a_name_that_is_not_listed_reaches_no_server(rev: Rev, tmp_path: Path) -> None:
    server = Upstream(tmp_path, "own")
    async with clients(rev, {"upstreams": {"web": server.table(deny=["write_*"])}}) as wire:
        for name in ("Own", "OWN", "Write_x", "own ", "own\u200b", "ＯＷＮ", "other", "", "own\x00"):
            for method, params in messages(rev, name, "web"):
                if method.startswith(("tools/", "prompts/")) or "ref/prompt" in json.dumps(params):
                    answer = await outcome(wire, rev, method, params)
                    assert "error" in answer, (name, method, answer)
        assert server.named() == []
        call, *_ = [item for item in messages(rev, "own", "web") if item[0].startswith("tools/")]
        assert "called own" in json.dumps(await outcome(wire, rev, *call)), "what is listed is called, unlisted before"


GROWING = f"""
import sys
sys.argv = ["wayward"]
source = open({WAYWARD!r}).read()
names = ["own"]
namespace = {{"__name__": "wayward"}}
exec(compile(source, "wayward", "exec"), namespace)
answer = namespace["answer"]

def changed(method, params):
    result = answer(method, params)
    if method == "tools/call":
        names.append("more")
    if method == "tools/list":
        result["tools"] = [dict(result["tools"][0], name=name) for name in names]
    return result

namespace["answer"] = changed
namespace["main"]()
"""


async def test_a_tool_that_a_server_has_added_can_be_called_at_once() -> None:
    rev = ALL_REVISIONS[2]
    server = {"command": sys.executable, "args": ["-c", GROWING]}
    async with clients(rev, {"upstreams": {"web": server}}) as wire:
        assert "error" in await outcome(wire, rev, "tools/call", {"name": "web_more", "arguments": {}})
        await outcome(wire, rev, "tools/call", {"name": "web_own", "arguments": {}})
        await outcome(wire, rev, "tools/list", {})
        answer = await outcome(wire, rev, "tools/call", {"name": "web_more", "arguments": {}})
        assert "called more" in json.dumps(answer)


@among([ALL_REVISIONS[0], ALL_REVISIONS[-1]])
async def test_subscriptions_end_when_a_reload_closes_the_resources(rev: Rev, tmp_path: Path) -> None:
    server = Upstream(tmp_path, "own")
    source: dict[str, Any] = {"upstreams": {"web": server.table()}}
    gateway = Gateway(source)
    servers = [candidate.get() for candidate in server_candidates(gateway.app.server, "all")]
    async with wire_to(*servers, opened=rev) as wire:
        method = next(row.method for row in rev.revision.rows if row.name in ("subscribe", "subscriptions_listen"))
        params: Any = {"uri": "note://web/own"}
        if rev.stateless:
            params = {"notifications": {"resourceSubscriptions": ["note://web/own"]}}
        assert "error" not in await outcome(wire, rev, method, params)
        assert "resources/subscribe" in server.file.read_text()
        source["upstreams"]["web"]["resources"] = False
        gateway.reload()
        other = rev.request("two", "tools/call", {"name": "web_own", "arguments": {}})
        wire.send(other)
        while (await wire.receive()).get("id") != "two":
            pass
        assert "resources/unsubscribe" in server.file.read_text()
