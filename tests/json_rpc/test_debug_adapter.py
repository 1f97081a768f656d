"""Messages of the Debug Adapter Protocol: written and read as its specification says, on both sides."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_codegen.cli.main import main
from mcp_products.json_rpc.debug_adapter import DebugAdapterMessages
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.framing import OversizedMessage, SizeLimit

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
MANIFEST = 'name = "Small"\nversion = "1"\ndocument = "document.json"\nformat = "json-schema"\nframing = "headers"\n'
DEBUGGED = MANIFEST + 'messages = "debug-adapter"\nreverse = ["ask"]\n'


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{name}"}


def composed(base: str, **properties: Any) -> dict[str, Any]:
    part = {"type": "object", "properties": properties, "required": [*properties]}
    return {"allOf": [reference(base), part]}


def constant(value: str) -> dict[str, Any]:
    return {"type": "string", "enum": [value]}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


DOCUMENT: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "definitions": {
        "Message": an_object(seq=INTEGER, type=STRING),
        "Point": an_object(line=INTEGER),
        "SetRequest": composed("Message", command=constant("set"), arguments=reference("Point")),
        "SetResponse": composed("Message", body=an_object(points={"type": "array", "items": reference("Point")})),
        "ThreadsRequest": composed("Message", command=constant("threads")),
        "ThreadsResponse": composed("Message"),
        "AskRequest": composed("Message", command=constant("ask"), arguments=an_object(text=STRING)),
        "AskResponse": composed("Message", body=an_object(text=STRING)),
        "StoppedEvent": composed("Message", event=constant("stopped"), body=an_object(reason=STRING)),
        "ReadyEvent": composed("Message", event=constant("ready")),
    },
}
ADAPTER = """
from small_debugger import Server, types as t
from mcp_runtime.errors import JSONRPCError

class Adapter(Server):
    async def on_set(self, params):
        if params.line < 0:
            body = {"error": {"id": 7, "format": "no line {line}", "variables": {"line": str(params.line)}}}
            raise JSONRPCError(7, "negative", body)
        return t.SetResult(points=[params])

    async def on_threads(self):
        answer = await self.ask(t.AskRequestArguments(text="how many?"), timeout=20)
        await self.ready()
        await self.stopped(t.StoppedEventBody(reason=answer.text))

Adapter().run()
"""


def written(folder: Path, manifest: str, document: Any = DOCUMENT) -> Any:
    (folder / "document.json").write_text(json.dumps(document))
    (folder / "protocol.toml").write_text(manifest)
    words = ["protocol", str(folder / "protocol.toml"), "--output", str(folder / "small_debugger")]
    return CliRunner().invoke(main, words)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The bindings of a small document."""
    result = written(tmp_path, DEBUGGED)
    assert result.exit_code == 0 and "5 messages" in result.output, result.output
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("small_debugger")
    for name in [name for name in sys.modules if name.partition(".")[0] == "small_debugger"]:
        del sys.modules[name]


async def test_both_sides_talk_in_requests_reverse_requests_and_events(package: ModuleType, tmp_path: Path) -> None:
    t = package.types
    seen: list[str] = []

    class Editor(package.Client):  # type: ignore[name-defined, misc]
        async def on_ask(self, params: Any) -> Any:
            seen.append(params.text)
            return t.AskResult(text="two")

        async def on_ready(self) -> None:
            seen.append("ready")

        async def on_stopped(self, params: Any) -> None:
            seen.append(params.reason)

    (tmp_path / "adapter.py").write_text(ADAPTER)
    env = {"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])}
    async with Editor().start(sys.executable, str(tmp_path / "adapter.py"), env=env) as editor:
        assert [point.line for point in (await editor.set(t.Point(line=3), timeout=20)).points] == [3]
        assert await editor.threads(timeout=20) is None
        with pytest.raises(RemoteJSONRPCError, match="no line -1") as failed:
            await editor.set(t.Point(line=-1), timeout=20)
        assert failed.value.code == 7
        with pytest.raises(RemoteJSONRPCError, match="line") as failed:
            await editor._send_request(package.methods.RequestRow("set", None, None), None, 20)
        assert failed.value.code == jsonrpc.INVALID_PARAMS
        with pytest.raises(RemoteJSONRPCError, match="goto is not a method of this side"):
            await editor._send_request(package.methods.RequestRow("goto", None, None), None, 20)
    assert seen == ["how many?", "ready", "two"]


def test_each_message_has_a_number_and_a_response_repeats_the_command() -> None:
    form = DebugAdapterMessages()
    read = json.loads(form.read(b'{"seq":9,"type":"request","command":"next","arguments":{"threadId":1}}'))
    assert read == {"jsonrpc": "2.0", "id": 9, "method": "next", "params": {"threadId": 1}}
    sent = [
        jsonrpc.request(1, "initialize", {"adapterID": "x"}),
        jsonrpc.notification("stopped", {"reason": "step"}),
        jsonrpc.result(9, None),
        jsonrpc.request(2, "threads", None),
    ]
    assert [json.loads(form.write(message) or b"") for message in sent] == [
        {"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}},
        {"seq": 2, "type": "event", "event": "stopped", "body": {"reason": "step"}},
        {"seq": 3, "type": "response", "request_seq": 9, "command": "next", "success": True},
        {"seq": 4, "type": "request", "command": "threads"},
    ]
    answers = [
        b'{"seq":1,"type":"response","request_seq":%d,"success":true,"command":"x","body":{}}' % n for n in (4, 1)
    ]
    assert [json.loads(form.read(answer))["id"] for answer in answers] == [2, 1]


@pytest.mark.parametrize("number", [b"1", b"2", b"true", b"null", b'"1"', b"[1]"])
def test_a_response_to_no_request_settles_none(number: bytes) -> None:
    """The numbers of messages are not the ids of requests: here 2 is the number of the request with the id 1."""
    form = DebugAdapterMessages()
    form.write(jsonrpc.notification("stopped", None))
    form.write(jsonrpc.request(1, "threads", None))
    answer = b'{"seq":1,"type":"response","request_seq":%b,"success":true,"command":"threads"}' % number
    assert (json.loads(form.read(answer))["id"] == 1) == (number == b"2")
    assert json.loads(form.read(answer))["id"] != 1  # The second time.


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, {"code": -32803, "message": "failed"}),
        ({"body": None}, {"code": -32803, "message": "failed"}),
        (
            {"body": {"error": {"id": 4, "format": "no {a} {b}", "variables": {"a": "x"}}}},
            {"code": 4, "message": "no x {b}"},
        ),
        ({"body": {"error": "text"}}, {"code": -32803, "message": "failed"}),
    ],
)
def test_a_response_without_success_is_an_error_with_its_body(body: dict[str, Any], error: dict[str, Any]) -> None:
    form = DebugAdapterMessages()
    form.write(jsonrpc.request("a", "threads", None))
    answer = {"seq": 1, "type": "response", "request_seq": 1, "success": False, "message": "failed", **body}
    read = json.loads(form.read(json.dumps(answer).encode()))
    assert read == {"jsonrpc": "2.0", "id": "a", "error": {**error, "data": body.get("body")}}


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"7", b'{"type":"other"}', b"{}", b'{"type":["request"]}'])
def test_what_is_no_message_is_no_request_and_answered_with_nothing(data: bytes) -> None:
    form = DebugAdapterMessages()
    read = jsonrpc.decode(form.read(data))
    assert not isinstance(read, jsonrpc.RequestMessage | jsonrpc.NotificationMessage | jsonrpc.ResultMessage)
    assert form.write(jsonrpc.error(None, jsonrpc.PARSE_ERROR, "not JSON", null_id=True)) is None
    assert json.loads(form.write(jsonrpc.request(1, "threads", None)) or b"")["seq"] == 1


def test_a_message_beyond_the_limit_is_what_it_was() -> None:
    large = OversizedMessage(b'{"seq":1', SizeLimit(4, "x"))
    assert DebugAdapterMessages().read(large) is large


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        (MANIFEST + 'messages = "dap"\n', "messages = 'dap' is unknown; set it to json-rpc or debug-adapter"),
        (MANIFEST + 'reverse = ["ask"]\n', "reverse = ['ask'] must be a list of commands of 'debug-adapter'"),
        (DEBUGGED.replace('"ask"', '"goto"'), "`reverse` names 'goto', which is not a command of the document"),
        (DEBUGGED.replace('["ask"]', "[1]"), "reverse = [1] must be a list"),
        (DEBUGGED.replace("json-schema", "open-rpc"), "goes with format = 'json-schema'"),
        (DEBUGGED + '[cancel]\nmethod = "cancel"\nproperty = "requestId"\n', "without [cancel]"),
    ],
)
def test_a_manifest_that_cannot_work_is_refused(manifest: str, text: str, tmp_path: Path) -> None:
    result = written(tmp_path, manifest)
    assert result.exit_code != 0 and text in result.output
    assert not (tmp_path / "small_debugger").exists()


def test_a_response_to_a_request_that_nobody_waits_for_is_one_to_no_request() -> None:
    form = DebugAdapterMessages()
    first = form.write(jsonrpc.request(1, "next", {}))
    form.write(jsonrpc.request(2, "next", {}))
    assert first is not None, "a request is sent"
    form.forget(1)
    late = {"seq": 7, "type": "response", "request_seq": json.loads(first)["seq"], "success": True, "command": "next"}
    assert json.loads(form.read(json.dumps(late).encode()))["id"] not in (1, 2)
    waited = {**late, "request_seq": late["request_seq"] + 1}
    assert json.loads(form.read(json.dumps(waited).encode()))["id"] == 2
