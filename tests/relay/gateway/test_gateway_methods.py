"""Methods that the protocol does not have, through a gateway: the file says which server has them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, endpoint
from support.endpoints import ALL_REVISIONS, Rev, among

from mcp_generated import Client, Gateway, LocalError, RemoteJSONRPCError, connect
from mcp_generated.auth import ResourceServer
from mcp_products.relay.gateway_check.findings import check_file

pytestmark = pytest.mark.deadline(120)

SERVER = """
import sys
from mcp_generated import App, Context

app = App(sys.argv[1])

@app.method("acme/search")
async def search(ctx: Context, query: str) -> dict:
    await ctx.notify("acme/changed", {"query": query})
    return {"by": sys.argv[1], "query": query}

@app.method("acme/count")
async def count() -> dict:
    return {"by": sys.argv[1]}

app.run()
"""


def settings(**upstreams: dict[str, Any]) -> dict[str, Any]:
    entries = {
        name: {"command": sys.executable, "args": ["-c", SERVER, name], **table} for name, table in upstreams.items()
    }
    return {"upstreams": entries}


@pytest.mark.long
@among(ALL_REVISIONS[1:])
async def test_each_method_goes_to_the_server_that_has_it(rev: Rev) -> None:
    names = {"first": {"methods": ["acme/search", "acme/changed"]}, "second": {"methods": ["acme/count"]}}
    told: asyncio.Queue[Any] = asyncio.Queue()
    client = Client(Gateway(settings(**names)).app, revisions=rev.id)
    client.on("acme/changed", lambda params: told.put_nowait(params))
    async with client:
        assert await client.request("acme/search", {"query": "tea"}) == {"by": "first", "query": "tea"}
        assert await client.request("acme/count") == {"by": "second"}
        assert await asyncio.wait_for(told.get(), 30) == {"query": "tea"}
        with pytest.raises(RemoteJSONRPCError) as raised:
            await client.request("acme/other")
        assert raised.value.code == -32601


@pytest.mark.long
async def test_rates_and_the_audit_log_have_them(tmp_path: Path) -> None:
    table = settings(first={"methods": ["acme/count"], "rate": 1})
    table["gateway"] = {"audit": str(tmp_path / "audit")}
    gateway = Gateway(table)
    async with connect(gateway.app) as client:
        assert await client.request("acme/count") == {"by": "first"}
        with pytest.raises(RemoteJSONRPCError, match="too many requests to 'first'"):
            for _ in range(5):
                await client.request("acme/count")
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert (lines[0]["kind"], lines[0]["name"], lines[0]["outcome"]) == ("method", "acme/count", "done")
    assert lines[-1]["outcome"] == "refused"


@among(PROTECTED)
async def test_scopes_of_the_server_hold(rev: Rev) -> None:
    issuer = Authority()
    gateway = Gateway(settings(first={"methods": ["acme/count"], "scopes": ["crm"]}))
    try:
        async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), gateway.app.server) as at:
            without, token = issuer.token(at.url), issuer.token(at.url, scope="crm")
            await at.open(without)
            message = rev.request(1, "acme/count", {})
            assert (await at.post(message, without)).status_code == 403
            answer = json.loads((await at.post(message, token)).content)
            assert answer["result"]["by"] == "first"
    finally:
        issuer.close()


async def test_a_reload_passes_other_methods(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"

    def write(methods: list[str]) -> None:
        arguments = json.dumps(["-c", SERVER, "first"])
        file.write_text(
            f"[upstreams.first]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\nmethods = {methods}\n"
        )

    write(["acme/search"])
    gateway = Gateway(file)
    async with connect(gateway.app) as client:
        assert (await client.request("acme/search", {"query": "a"}))["query"] == "a"
        write(["acme/count"])
        gateway.reload()
        assert await client.request("acme/count") == {"by": "first"}
        with pytest.raises(RemoteJSONRPCError):
            await client.request("acme/search", {"query": "a"})


async def test_a_function_of_the_program_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    entry = '[upstreams.a]\nurl = "http://127.0.0.1:1/mcp"\n'
    file.write_text(entry)
    gateway = Gateway(file)

    @gateway.app.method("acme/count")
    def count() -> dict[str, int]:
        return {"number": 1}

    file.write_text(f'{entry}methods = ["acme/count"]\n')
    with pytest.raises(LocalError, match="the app has a function for 'acme/count': leave one of them out"):
        gateway.reload()
    async with connect(gateway.app) as client:
        assert await client.request("acme/count") == {"number": 1}


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"a": {"methods": "acme/x"}}, '[upstreams.a] methods is a list of methods of vendors: write methods = ["acme'),
        ({"a": {"methods": ["search"]}}, "[upstreams.a] methods: a method begins with the name of its vendor"),
        ({"a": {"methods": ["tools/call"]}}, "[upstreams.a] methods: 'tools/call' is a method of the protocol"),
        ({"a": {"methods": ["acme/x", "acme/x"]}}, "[upstreams.a] methods has 'acme/x' twice: leave one out"),
        (
            {"a": {"methods": ["acme/x"]}, "b": {"methods": ["acme/x"]}},
            "[upstreams.b] methods has 'acme/x', as 'a' has: leave it out of one of them",
        ),
    ],
)
def test_wrong_methods_are_refused_where_they_are_written(
    tables: dict[str, dict[str, Any]], text: str, tmp_path: Path
) -> None:
    entries = {name: {"command": sys.executable, **table} for name, table in tables.items()}
    with pytest.raises(LocalError) as raised:
        Gateway({"upstreams": entries})
    assert text in str(raised.value)
    lines = [
        f"[upstreams.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
        for name, entry in entries.items()
    ]
    file = tmp_path / "gateway.toml"
    file.write_text("\n".join(lines))
    assert any(text in line for line in check_file(file))
