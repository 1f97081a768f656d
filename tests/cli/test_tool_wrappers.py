"""What a server offers goes in, and its wrappers are imported, checked by mypy and pyright, and called."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from support.checkers import mypy, pyright
from support.peer_drivers.our_client import program
from support.peers import started
from support.project import ROOT
from support.schemas.awkward import HOSTILE, awkward_tools, tool

from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.paths import template_folders
from mcp_codegen.servers.contract import read_contract
from mcp_codegen.servers.probe import ServerTarget, parse_target, probe, target_from_config
from mcp_codegen.servers.wrappers import wrap
from mcp_generated import v2025_06_18, v2025_11_25
from mcp_generated.v2025_11_25 import types as t
from mcp_products.host.tools import UNSET
from mcp_runtime.errors import InvalidResponseError, ToolResultError

EXAMPLES = {
    name: ServerTarget((sys.executable, str(ROOT / "examples" / name / "server.py")))
    for name in ("weather", "everything", "echo", "elicitation", "fetch", "memory", "sqlite", "thinking")
}

USE = """
from example_everything import Prompts, Resources, SyncTools, Tools
from mcp_generated.v2024_11_05 import SyncClient
from mcp_generated.v2025_11_25 import Client, types as t
import mcp_generated.v2026_07_28 as newest


async def right(client: Client, other: newest.Client) -> None:
    result: t.CallToolResult = await Tools(client).add(a=1, b=2.5)
    total: int | float = (await Tools(client).statistics(numbers=[1, 2])).sum
    await Tools(other).log_something(level="info", text="x")
    prompt: t.GetPromptResult = await Prompts(client).describe(city="Rome")
    print(result, total, prompt, Resources)


def also_right(client: SyncClient) -> None:
    print(SyncTools(client).add(a=1, b=2).content)


async def wrong(client: Client) -> None:
    await Tools(client).add(a="1", b=2)
    await Tools(client).add(a=1)
    await Tools(client).add(a=1, b=2, c=3)
    await Tools(client).log_something(level="loud", text="x")
    await Tools(client).no_such_tool()
    (await Tools(client).statistics(numbers=[1])).mean
    await Prompts(client).describe(city=1)
"""


def module(text: str, name: str, folder: Path) -> ModuleType:
    """The wrappers, imported."""
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    imported = importlib.util.module_from_spec(spec)
    sys.modules[name] = imported  # Where pydantic looks for classes that were not there yet.
    spec.loader.exec_module(imported)
    return imported


def wrapped(tools: list[Any], folder: Path) -> ModuleType:
    return module(wrap(read_contract(tools, "a test"), "a test", template_folders()), "wrapped", folder)


class Recorded:
    """A client's `call_tool`, whose answer the test says."""

    def __init__(self, **answer: Any) -> None:
        self.calls: list[tuple[str, dict[str, Any] | None]] = []
        self.answer = t.CallToolResult(content=[], **answer)

    async def call_tool(self, *, name: str, arguments: Any = None, options: Any = None) -> t.CallToolResult:
        self.calls.append((name, arguments))
        return self.answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wrappers")


@pytest.fixture(scope="module")
def corpus(folder: Path) -> ModuleType:
    tools = awkward_tools(seed=20261121)
    assert len(tools) >= 300
    return wrapped(tools, folder)


@pytest.mark.long
def test_each_of_the_awkward_tools_can_be_called_and_gets_what_was_given(corpus: ModuleType) -> None:
    async def call_all() -> int:
        called = 0
        for name, function in inspect.getmembers(corpus.Tools, inspect.iscoroutinefunction):
            if name.startswith("_"):
                continue
            keywords = [
                parameter
                for parameter in inspect.signature(function).parameters.values()
                if parameter.kind is parameter.KEYWORD_ONLY
            ]
            required = {
                parameter.name: f"value of {parameter.name}"
                for parameter in keywords
                if parameter.default is parameter.empty
            }
            filled = [
                parameter.default for parameter in keywords if parameter.default not in (parameter.empty, None, UNSET)
            ]
            client = Recorded()
            try:
                await getattr(corpus.Tools(client), name)(**required)
            except InvalidResponseError:  # It has an output schema, and this client's answer nothing to read.
                pass
            [(_, sent)] = client.calls
            assert sent is not None
            sent = {wire: value for wire, value in sent.items() if value is not None}  # Where null is the default.
            assert sorted(map(repr, sent.values())) == sorted(map(repr, [*required.values(), *filled])), name
            called += 1
        return called

    assert asyncio.run(call_all()) == len(awkward_tools(seed=20261121))


@pytest.mark.exhaustive
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_wrappers_of_servers_and_of_awkward_schemas_pass_mypy_and_pyright_strict(
    corpus: ModuleType, folder: Path, checker: Callable[..., list[str]]
) -> None:
    for name, target in EXAMPLES.items():
        module(wrap(probe(target), str(target), template_folders()), f"example_{name}", folder)
    (folder / "use.py").write_text(USE)
    files = ["wrapped.py", "use.py", *(f"example_{name}.py" for name in EXAMPLES)]
    first = USE.splitlines().index("async def wrong(client: Client) -> None:") + 1
    expected = {f"use.py:{line}" for line in range(first + 1, len(USE.splitlines()) + 1)}
    complaints = checker(folder, *files)
    assert {":".join(complaint.split(":")[:2]) for complaint in complaints} == expected, complaints


@pytest.mark.exhaustive
def test_the_official_everything_server_is_wrapped_and_called(folder: Path) -> None:
    command = (*program(), "stdio")
    wrappers = module(wrap(probe(ServerTarget(command)), "npm", template_folders()), "official", folder)
    with v2025_11_25.SyncClient.stdio(*command, stderr=lambda line: None) as client:
        tools = wrappers.SyncTools(client)
        assert tools.echo(message="hello").content[0].text == "Echo: hello"
        assert "5" in tools.get_sum(a=2, b=3).content[0].text
        result = tools.get_structured_content(location="Chicago")
        assert type(result).__module__ == "official" and isinstance(result.temperature, (int, float))
    assert not mypy(folder, "official.py")
    assert not pyright(folder, "official.py")


@pytest.mark.long
@pytest.mark.parametrize("package", [v2025_06_18, v2025_11_25])
def test_a_client_of_any_revision_drives_the_wrappers(package: Any, folder: Path) -> None:
    target = EXAMPLES["everything"]
    wrappers = module(wrap(probe(target), "everything", template_folders()), "driven", folder)
    with package.SyncClient.stdio(*target.command, stderr=lambda line: None) as client:
        result = wrappers.SyncTools(client).statistics(numbers=[1, 2, 6])
        assert (result.count, result.sum, result.maximum) == (3, 9, 6)
        with pytest.raises(ToolResultError, match="^tool 'fail': .") as failed:
            wrappers.SyncTools(client).fail()
        assert failed.value.result.is_error is True


def test_a_default_is_sent_what_is_not_given_is_not_and_null_is_where_it_is_allowed(tmp_path: Path) -> None:
    properties = {
        "city": {"type": "string"},
        "limit": {"type": "integer", "default": 5},
        "unit": {"type": "string"},
        "since": {"type": ["string", "null"]},
        "where": {"type": "object", "properties": {"latIs": {"type": "number"}}, "required": ["latIs"]},
    }
    wrappers = wrapped([tool("get", {"type": "object", "properties": properties, "required": ["city"]})], tmp_path)
    client = Recorded()
    asyncio.run(wrappers.Tools(client).get(city="Rome"))
    asyncio.run(
        wrappers.Tools(client).get(city="Rome", limit=1, since=None, where=wrappers.GetArgumentWhere(lat_is=1.5))
    )
    assert client.calls == [
        ("get", {"city": "Rome", "limit": 5}),
        ("get", {"city": "Rome", "limit": 1, "since": None, "where": {"latIs": 1.5}}),
    ]


def test_structured_content_that_is_not_what_the_schema_says_is_an_error(tmp_path: Path) -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wrappers = wrapped([tool("count", {"type": "object"}, output)], tmp_path)
    assert asyncio.run(wrappers.Tools(Recorded(structured_content={"n": 2})).count()).n == 2
    for answer in ({"n": "2"}, {}, None):
        with pytest.raises(InvalidResponseError, match="tool 'count': structured content: "):
            asyncio.run(wrappers.Tools(Recorded(structured_content=answer)).count())


def test_prompts_and_resource_templates_have_a_function_each(tmp_path: Path) -> None:
    contract = {
        "prompts": [{"name": "review-code", "arguments": [{"name": "class", "required": True}, {"name": "style"}]}],
        "resourceTemplates": [{"name": "a city", "uriTemplate": "weather://{city}/{?days,list*}"}],
    }
    wrappers = module(wrap(read_contract(contract, "x"), "x", template_folders()), "both", tmp_path)
    calls: list[Any] = []

    class Both:
        async def get_prompt(self, *, name: str, arguments: Any = None, options: Any = None) -> None:
            calls.append((name, arguments))

        async def read_resource(self, *, uri: str, options: Any = None) -> None:
            calls.append(uri)

    asyncio.run(wrappers.Prompts(Both()).review_code(class_="A"))
    asyncio.run(wrappers.Resources(Both()).a_city(city="São Paulo", list=["a", "b"]))
    assert calls == [("review-code", {"class": "A"}), "weather://S%C3%A3o%20Paulo/?list=a&list=b"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_of_a_server_becomes_code(text: str, tmp_path: Path) -> None:
    schema = {"type": "object", "title": text, "description": text, "properties": {}}
    schema["properties"] = {text: {"enum": [text], "default": text, "description": text}, "y": {**schema}}
    contract = {
        "server": {"serverInfo": {"name": text}},
        "tools": [tool(text or "x", schema, schema, text)],
        "prompts": [{"name": text or "x", "description": text, "arguments": [{"name": text, "description": text}]}],
        "resourceTemplates": [{"name": text or "x", "uriTemplate": "x://{y}", "description": text}],
    }
    source = wrap(read_contract(contract, "x"), text, template_folders())
    wrappers = module(source, "hostile", tmp_path)
    own = {name for name, value in vars(wrappers).items() if getattr(value, "__module__", "") == "hostile"}
    assert {"Tools", "SyncTools", "Prompts", "SyncPrompts", "Resources", "SyncResources"} <= own
    assert "os" not in vars(wrappers)
    source.encode("ascii", "strict") if text.isascii() else source.encode("utf-8")


SERVED = """
import logging, runpy, sys
logging.basicConfig(level=logging.INFO)
sys.argv = [sys.argv[1], "http", "--port", "0"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.long
def test_a_server_is_asked_over_http() -> None:
    server = started([sys.executable, "-c", SERVED, EXAMPLES["echo"].command[1]], dict(os.environ), "listening at")
    try:
        contract = probe(parse_target(server.output.split()[-1]))
    finally:
        server.process.kill()
        server.process.wait()
    assert (contract.server, list(contract.tools)) == ("echo", ["echo", "slow"])


def test_what_is_not_a_contract_is_refused() -> None:
    nameless: list[Any] = [[{}], [{"name": ""}], [7], {"tools": {}}, {}, 7, [{"name": "a"}, {"name": "a"}]]
    deep: Any = {}
    for _ in range(900):
        deep = {"not": deep}
    for contract in [*nameless, [tool("a", {}, None, "\ud800")], [tool("a", deep)]]:
        with pytest.raises(CodegenError, match="^x: "):
            read_contract(contract, "x")


@pytest.mark.long
def test_a_server_is_named_by_a_command_a_url_a_saved_list_or_a_configuration(tmp_path: Path) -> None:
    saved = tmp_path / "tools.json"
    saved.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool("a", {"type": "object"})]}}))
    assert list(probe(parse_target(str(saved))).tools) == ["a"]
    assert parse_target("https://example.com/mcp").url == "https://example.com/mcp"
    assert parse_target("python 'my server.py'").command == ("python", "my server.py")
    config = tmp_path / "claude_desktop_config.json"
    entry = {"command": sys.executable, "args": [str(ROOT / "examples" / "echo" / "server.py")], "env": {"A": "b"}}
    config.write_text(json.dumps({"mcpServers": {"echo": entry}}))
    assert probe(target_from_config(config, "echo")).tools
    with pytest.raises(CodegenError, match="has no server 'other'; its servers are: echo"):
        target_from_config(config, "other")


@pytest.mark.long
def test_what_cannot_be_asked_is_one_line_and_exit_code_2_and_writes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "made.py"
    for source in (f"{sys.executable} -c pass", "/no/such/program", "http://127.0.0.1:9/mcp", "''"):
        done = CliRunner().invoke(main, ["tools", "--from", source, "--output", str(output)])
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_the_command_writes_a_module_that_runs(tmp_path: Path) -> None:
    output = tmp_path / "echoing.py"
    done = CliRunner().invoke(main, ["tools", "--from", str(EXAMPLES["echo"]), "--output", str(output)])
    assert done.exit_code == 0, done.output
    assert done.output == f"{output}: 2 tools, 0 prompts, 0 resource templates\n"
    subprocess.run([sys.executable, str(output)], check=True, timeout=60)
