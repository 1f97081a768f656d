"""Generated bindings of a small protocol talk to each other, and to what other programs write, over both framings."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from support.project import ROOT

from mcp_codegen.cli.main import main
from mcp_products.json_rpc.peer import ContentLengthDecoder, with_header
from mcp_runtime.errors import (
    ConnectionClosedError,
    InvalidMessageError,
    InvalidResponseError,
    LocalError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.protocol.framing import OversizedMessage, SizeLimit

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ROWS = {
    "echo": ("Echo", True, "agent"),
    "wait": ("Wait", True, "agent"),
    "break": ("Break", True, "agent"),
    "note": ("Note", False, "agent"),
    "client/name": ("Name", True, "client"),
    "$/cancel": ("Cancel", False, "both"),
}
AGENT = """
import asyncio
import sys
from FOLDER import Agent, types as t


class Echo(Agent):
    notes = []
    cancelled = 0

    async def on_echo(self, params):
        name = await self.client_name(t.NameParams(text="?"))
        return t.EchoResult(text=f"{params.text} {name.text} {','.join(self.notes)} {self.cancelled}")

    async def on_wait(self, params):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            type(self).cancelled += 1
            raise

    async def on_note(self, params):
        await asyncio.sleep(0)
        if params.text == "fail":
            raise ValueError("a secret")
        if params.text == "exit":
            sys.stderr.write("the last line\\n")
            sys.stderr.flush()
            import os; os._exit(3)
        self.notes.append(params.text)

    async def on_break(self, params):
        return {"text": 3} if params.text == "type" else 1 / 0


Echo().run()
"""


@pytest.fixture(scope="module", params=["lines", "headers"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The bindings of a small protocol."""
    folder = tmp_path_factory.mktemp(request.param)
    definitions: dict[str, object] = {}
    for method, (name, is_request, side) in ROWS.items():
        marks = {"x-method": method, "x-side": side}
        params = TEXT if name != "Cancel" else {"properties": {"id": {"type": "integer"}}}
        definitions[name + "Params"] = {**params, **marks}
        if is_request:
            definitions[name + "Result"] = {**TEXT, **marks}
    (folder / "schema.json").write_text(json.dumps({"$defs": definitions}))
    (folder / "protocol.toml").write_text(
        'name = "Small"\nversion = "1"\ndocument = "schema.json"\nformat = "json-schema"\n'
        f'framing = "{request.param}"\n'
        '[sides]\nclient = "Client"\nserver = "Agent"\n[cancel]\nmethod = "$/cancel"\nproperty = "id"\n'
    )
    name = f"small_{request.param}"
    result = CliRunner().invoke(main, ["protocol", str(folder / "protocol.toml"), "--output", str(folder / name)])
    assert result.exit_code == 0, result.output
    (folder / "agent.py").write_text(AGENT.replace("FOLDER", name))
    sys.path.insert(0, str(folder))
    yield importlib.import_module(name)
    sys.path.remove(str(folder))


def command(package: ModuleType) -> list[str]:
    assert package.__file__ is not None
    return [sys.executable, str(Path(package.__file__).parent.parent / "agent.py")]


def client_of(package: ModuleType) -> type:
    class Client(package.Client):  # type: ignore[name-defined, misc]
        async def on_client_name(self, params):  # type: ignore[no-untyped-def]
            return package.types.NameResult(text="the client")

    return Client


def environment(package: ModuleType) -> dict[str, str]:
    return {"PYTHONPATH": f"{ROOT / 'runtime'}:{Path(command(package)[1]).parent}"}


async def test_both_sides_send_requests_and_notifications_in_order(package: ModuleType) -> None:
    t = package.types
    async with client_of(package)().start(*command(package), env=environment(package)) as client:
        for text in ("a", "fail", "b"):
            await client.note(t.NoteParams(text=text))
        result = await client.echo(t.EchoParams(text="hello"), timeout=20)
        assert result.text == "hello the client a,b 0"
        results = await asyncio.gather(*(client.echo(t.EchoParams(text=f"€{number}")) for number in range(20)))
        assert [result.text.split()[0] for result in results] == [f"€{number}" for number in range(20)]


@pytest.mark.long
async def test_cancelling_and_timeouts_cancel_the_request_at_the_other_side(package: ModuleType) -> None:
    t = package.types
    async with client_of(package)().start(*command(package), env=environment(package)) as client:
        with pytest.raises(RequestTimeoutError, match=r"wait: no response within 0\.01 s"):
            await client.wait(t.WaitParams(text=""), timeout=0.01)
        assert (await client.echo(t.EchoParams(text="x"), timeout=20)).text.split()[-1] == "1"
        task = asyncio.create_task(client.wait(t.WaitParams(text="")))
        await client.echo(t.EchoParams(text="x"), timeout=20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.echo(t.EchoParams(text="x"), timeout=20)).text.split()[-1] == "2"


async def test_a_program_has_the_transport_of_windows_without_the_front_door(package: ModuleType) -> None:
    env = {**environment(package), "MCP_STDIO": "threads"}
    async with client_of(package)().start(*command(package), env=env) as client:
        assert (await client.echo(package.types.EchoParams(text="hello"), timeout=20)).text == "hello the client  0"


async def test_errors_name_what_is_wrong_and_hide_what_failed(package: ModuleType) -> None:
    t = package.types
    async with package.Client().start(*command(package), env=environment(package)) as client:
        with pytest.raises(RemoteJSONRPCError, match="internal error") as failed:
            await client.break_(t.BreakParams(text="zero"), timeout=20)
        assert failed.value.code == -32603
        with pytest.raises(InvalidResponseError, match=r"the result of break is not valid: text: .*string"):
            await client.break_(t.BreakParams(text="type"), timeout=20)
        with pytest.raises(InvalidMessageError, match="echo needs params of the type EchoParams, not NoteParams"):
            await client.echo(t.NoteParams(text="x"))
        with pytest.raises(RemoteJSONRPCError, match="internal error"):  # This client does not handle client/name.
            await client.echo(t.EchoParams(text="x"), timeout=20)
        with pytest.raises(LocalError, match="is connected already"):
            async with client.start(*command(package)):
                raise AssertionError
        await client.note(t.NoteParams(text="exit"))
        with pytest.raises(ConnectionClosedError):
            await client.echo(t.EchoParams(text="x"), timeout=20)
    with pytest.raises(ConnectionClosedError, match="is not connected"):
        await package.Client().note(t.NoteParams(text="x"))
    with pytest.raises(LocalError, match="needs a command"):
        async with package.Client().start():
            raise AssertionError


OTHER_PROGRAM = r"""
import json, sys
def write(*messages):
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        if HEADERS:
            data = b"Content-Type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data
        else:
            data += b"\n"
        for start in range(0, len(data), 7):
            sys.stdout.buffer.write(data[start:start + 7])
            sys.stdout.buffer.flush()
def read():
    if not HEADERS:
        return json.loads(sys.stdin.buffer.readline())
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length))
request = read()
write({"jsonrpc": "2.0", "method": "unknown", "params": None})
write({"jsonrpc": "2.0", "id": 7, "method": "none/such", "params": None})
write({"jsonrpc": "2.0", "id": "x", "method": "client/name", "params": {"text": 3}}, b"{", [])
answers = [read() for _ in range(4)]
codes = [[answer["id"], answer["error"]["code"]] for answer in answers]
write({"jsonrpc": "2.0", "id": request["id"], "result": {"text": json.dumps(codes)}})
sys.stdin.buffer.read()
"""


async def test_messages_of_other_programs_are_answered_as_json_rpc_says(package: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text(OTHER_PROGRAM.replace("HEADERS", str(package.__name__.endswith("headers"))))
    async with client_of(package)().start(sys.executable, str(script)) as client:
        result = await client.echo(package.types.EchoParams(text="x"), timeout=20)
    codes = json.loads(result.text)
    assert sorted(codes, key=str) == sorted([[7, -32601], ["x", -32602], [None, -32700], [None, -32600]], key=str)


async def test_a_header_without_a_length_ends_the_connection(package: ModuleType) -> None:
    if package.__name__.endswith("lines"):
        return
    text = "import sys; sys.stdout.buffer.write(b'Length: 3\\r\\n\\r\\n{}'); sys.stdout.flush(); sys.stdin.read()"
    async with package.Client().start(sys.executable, "-c", text) as client:
        for _ in range(2):
            with pytest.raises(ConnectionClosedError, match="a header without Content-Length"):
                await client.echo(package.types.EchoParams(text="x"), timeout=20)


def test_headers_are_read_in_any_pieces_and_up_to_the_limit() -> None:
    messages = [b'{"a":1}', '{"b":"€"}'.encode(), b"x" * 50, b"{}"]
    stream = b"".join(with_header(message) + b"\n" for message in messages)
    for size in (1, 2, 3, 7, len(stream)):
        decoder = ContentLengthDecoder(SizeLimit(20))
        read = [m for start in range(0, len(stream), size) for m in decoder.feed(stream[start : start + size])]
        assert [read[0], read[1], read[3]] == [messages[0] + b"\n", messages[1] + b"\n", b"{}\n"]
        assert isinstance(read[2], OversizedMessage)
    for broken in (b"Content-Type: x\r\n\r\n{}", b"a" * 5000, b"Content-Length: -1\r\n\r\n{}"):
        decoder = ContentLengthDecoder()
        assert decoder.feed(broken) == [b""]
        assert decoder.broken
        assert decoder.feed(with_header(b"{}")) == []
