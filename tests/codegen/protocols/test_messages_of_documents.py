"""Messages as documents write them: params by position, a constant as method, two kinds of one method."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_codegen.cli.main import main
from mcp_codegen.protocols.protocol import read_protocol
from mcp_runtime.errors import RemoteJSONRPCError

INTEGER = {"type": "integer"}


def param(name: str, required: bool = False, schema: Any = None) -> dict[str, Any]:
    return {"name": name, "required": required, "schema": schema or INTEGER}


def method(name: str, structure: str | None, *params: dict[str, Any]) -> dict[str, Any]:
    result = {"name": "result", "schema": {"type": "string"}}
    return {"name": name, "params": [*params], "result": result} | ({"paramStructure": structure} if structure else {})


# A type named like a property, in lower case: as in the document of Ethereum.
REPO = {"type": "object", "properties": {"name": {"type": "string"}, "repo": {"$ref": "#/components/schemas/repo"}}}
DOCUMENT: dict[str, Any] = {
    "openrpc": "1.3.2",
    "info": {"title": "Places", "version": "1"},
    "methods": [
        method("listed", "by-position", param("a", True), param("b"), param("c")),
        method("named", "by-name", param("a", True), param("b")),
        method("open", None, param("a", True), param("b")),
        method("whole", "by-position", param("repo", True, {"$ref": "#/components/schemas/repo"})),
        {"name": "told", "params": [param("a", True)], "paramStructure": "by-position"},
    ],
    "components": {"schemas": {"repo": REPO, "Null": {"type": "null"}}},
}
# It writes down the params that it gets, as it gets them.
RAW = r"""
import json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": json.dumps(message.get("params"))}
        print(json.dumps(answer), flush=True)
"""
SERVER = """
from NAME import Server, types as t

class Places(Server):
    async def on_listed(self, params):
        return f"{params.a} {params.b} {params.c}"

    async def on_named(self, params):
        return f"{params.a} {params.b}"

    async def on_open(self, params):
        return f"{params.a} {params.b}"

Places().run()
"""


def package_of(folder: Path, name: str, document: Any, format: str, more: str = "") -> ModuleType:
    (folder / "document.json").write_text(json.dumps(document))
    text = f'name = "Small"\nversion = "1"\ndocument = "document.json"\nformat = "{format}"\n{more}'
    (folder / "protocol.toml").write_text(text)
    result = CliRunner().invoke(main, ["protocol", str(folder / "protocol.toml"), "--output", str(folder / name)])
    assert result.exit_code == 0, result.output
    sys.path.insert(0, str(folder))
    module = importlib.import_module(name)
    sys.path.remove(str(folder))
    return module


@pytest.mark.parametrize("structure", ["by-name", "by-position"])
async def test_params_are_sent_as_the_document_says_and_where_it_is_open_as_the_manifest_says(
    structure: str, tmp_path: Path
) -> None:
    name = f"places_{structure[3:]}"
    package = package_of(tmp_path, name, DOCUMENT, "open-rpc", f'params = "{structure}"\n')
    t = package.types
    async with package.Client().start(sys.executable, "-c", RAW) as client:
        assert json.loads(await client.listed(t.ListedParams(a=1), timeout=20)) == [1]
        assert json.loads(await client.listed(t.ListedParams(a=1, c=3), timeout=20)) == [1, None, 3]
        assert json.loads(await client.named(t.NamedParams(a=1, b=2), timeout=20)) == {"a": 1, "b": 2}
        expected: Any = [1, 2] if structure == "by-position" else {"a": 1, "b": 2}
        assert json.loads(await client.open(t.OpenParams(a=1, b=2), timeout=20)) == expected
        whole = await client.whole(t.WholeParams(repo=t.Repo(name="x", repo=t.Repo(name="y"))), timeout=20)
        assert json.loads(whole) == [{"name": "x", "repo": {"name": "y"}}]


async def test_params_are_read_by_position_where_the_document_allows_that(tmp_path: Path) -> None:
    package = package_of(tmp_path, "places_read", DOCUMENT, "open-rpc")
    (tmp_path / "server.py").write_text(SERVER.replace("NAME", "places_read"))

    class Raw(package.Client):  # type: ignore[name-defined, misc]
        async def send(self, method: str, params: Any) -> Any:
            row = package.methods.RequestRow(method, None, str)
            row.params = object()  # Sent as they are.
            return await self._send_request(row, params, 20)

    env = {"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])}
    async with Raw().start(sys.executable, str(tmp_path / "server.py"), env=env) as client:
        for method_name in ("listed", "open"):
            assert (await client.send(method_name, [1])).startswith("1 None")
            assert (await client.send(method_name, [1, 2])).startswith("1 2")
            assert (await client.send(method_name, {"a": 1, "b": 2})).startswith("1 2")
            assert (await client.send(method_name, [1, None])).startswith("1 None")
        for method_name, params, text in (
            ("named", [1], "named takes params by name, and got a list of 1"),
            ("open", [1, 2, 3], "open takes at most 2 params by position, and got a list of 3"),
            ("listed", [], "a: "),
            ("listed", ["x"], "a: "),
        ):
            with pytest.raises(RemoteJSONRPCError, match=text) as failed:
                await client.send(method_name, params)
            assert failed.value.code == -32602


def envelope(method_name: str, **properties: Any) -> dict[str, Any]:
    fields = {"jsonrpc": {"const": "2.0"}, "method": {"const": method_name}, **properties}
    return {"type": "object", "properties": fields, "required": ["jsonrpc", "method", *properties]}


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}


# The form of the Agent2Agent Protocol.
ENVELOPES: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "definitions": {
        "Task": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "SendParams": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "SendRequest": envelope("message/send", id={"type": ["string", "integer"]}, params=reference("SendParams")),
        "SendSuccessResponse": {"type": "object", "properties": {"result": {"anyOf": [reference("Task")]}}},
        "ErrorResponse": {"type": "object", "properties": {"error": {}}},
        "SendResponse": {"anyOf": [reference("ErrorResponse"), reference("SendSuccessResponse")]},
        "ListRequest": envelope("list", id={"type": "integer"}),
        "ListResponse": {"type": "object", "properties": {"result": {"type": "array", "items": reference("Task")}}},
        "Ping": envelope("ping", params={"type": "object"}),
    },
}


def test_whole_messages_with_a_constant_method_are_messages(tmp_path: Path) -> None:
    package_of(tmp_path, "envelopes", ENVELOPES, "json-schema")
    revision = read_protocol(tmp_path / "protocol.toml")[1]
    rows = [(row.kind, row.direction, row.method, row.params, row.result) for row in revision.methods]
    assert rows == [
        ("request", "client_to_server", "message/send", "SendParams", "SendResult"),
        ("request", "client_to_server", "list", None, "ListResult"),
        ("notification", "client_to_server", "ping", "PingParams", None),
    ]


BOTH: dict[str, Any] = {
    "$defs": {
        "AskRequest": {"type": "object", "properties": {"n": INTEGER}, "x-method": "ask", "x-side": "server"},
        "AskResponse": {"type": "object", "properties": {"n": INTEGER}, "x-method": "ask", "x-side": "server"},
        "AskNotification": {"type": "object", "properties": {"n": INTEGER}, "x-method": "ask", "x-side": "server"},
    }
}
TOLD = """
from both_kinds import Server, types as t

class Told(Server):
    total = 0

    async def on_ask_notification(self, params):
        self.total += params.n

    async def on_ask(self, params):
        return t.AskResponse(n=self.total)

Told().run()
"""


@pytest.mark.long
async def test_a_method_can_be_a_request_and_a_notification(tmp_path: Path) -> None:
    package = package_of(tmp_path, "both_kinds", BOTH, "json-schema")
    (tmp_path / "server.py").write_text(TOLD)
    env = {"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])}
    async with package.Client().start(sys.executable, str(tmp_path / "server.py"), env=env) as client:
        for number in (1, 2):
            await client.ask_notification(package.types.AskNotification(n=number))
        assert (await client.ask(package.types.AskRequest(n=0), timeout=20)).n == 3
