"""One client for several servers: from a host's configuration, with prefixes, and with failures that harm no other."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from support.http.sockets import listening

from mcp_generated import App, LocalError, MultiClient
from mcp_generated.v2024_11_05 import Server as OldServer
from mcp_generated.v2024_11_05 import types as old

SERVER = """
import os, sys
from mcp_generated import App

app = App(sys.argv[1])


@app.tool()
def where(text: str) -> str:
    return f"{sys.argv[1]} {os.environ.get('MARK', '-')} {os.path.basename(os.getcwd())} {text}"


@app.resource("note://today")
def today() -> str:
    return sys.argv[1]


@app.resource("note://days/{day}")
def day(day: str) -> str:
    return f"{sys.argv[1]} {day}"


@app.prompt()
def greet(name: str) -> str:
    return f"Greet {name} from {sys.argv[1]}"


app.run()
"""


class Old(OldServer):
    """A server of the oldest revision, with nothing but tools."""

    async def list_tools(self, ctx: Any, params: Any) -> old.ListToolsResult:
        return old.ListToolsResult(tools=[old.Tool(name="add", input_schema=old.ToolInputSchema())])

    async def call_tool(self, ctx: Any, params: Any) -> old.CallToolResult:
        return old.CallToolResult(content=[old.TextContent(text=f"{params.name} in 2024")])


def app_named(name: str) -> App:
    app = App(name)

    @app.tool()
    def where(text: str) -> str:
        return f"{name} {text}"

    @app.resource("note://today")
    def today() -> str:
        return name

    @app.prompt()
    def greet(person: str) -> str:
        return f"Greet {person} from {name}"

    return app


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def script(folder: Path) -> str:
    path = folder / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return str(path)


def entry(folder: Path, name: str, **others: Any) -> dict[str, Any]:
    import mcp_generated
    import mcp_runtime

    paths = ":".join(str(Path(str(module.__file__)).parent.parent) for module in (mcp_runtime, mcp_generated))
    env = {"PYTHONPATH": paths, **others.pop("env", {})}
    return {"command": sys.executable, "args": [script(folder), name], "env": env, **others}


# ---- names -----------------------------------------------------------------------------------------------------------


async def test_servers_of_all_kinds_have_their_names_as_prefixes() -> None:
    servers = {"one": app_named("one"), "my two": app_named("two"), "old": Old(name="old", version="1")}
    async with MultiClient(servers) as multi:
        assert [tool.name for tool in await multi.list_tools()] == ["one_where", "my two_where", "old_add"]
        assert [resource.uri for resource in await multi.list_resources()] == [
            "note://one/today",
            "note://my%20two/today",
        ]
        assert [prompt.name for prompt in await multi.list_prompts()] == ["one_greet", "my two_greet"]
        assert await multi.list_resource_templates() == []
        assert text_of(await multi.call_tool("my two_where", {"text": "x"})) == "two x"
        assert text_of(await multi.call_tool("old_add")) == "add in 2024"
        assert (await multi.read_resource("note://my%20two/today")).contents[0].text == "two"
        assert (await multi.get_prompt("one_greet", {"person": "Ada"})).messages[0].content.text == "Greet Ada from one"
        assert multi.errors == {}
        for wrong in ("where", "two_where", "one", "", "three_where"):
            with pytest.raises(LocalError, match="one_, my two_, old_"):
                await multi.call_tool(wrong)
        for wrong in ("note://today", "note:one", "one/today"):
            with pytest.raises(
                LocalError, match="belongs to no connected server: the host of a URI is one, my two, old"
            ):
                await multi.read_resource(wrong)
        nameless: Any = None
        with pytest.raises(LocalError, match=r"call_tool\(\): name must be a string; None is not"):
            await multi.call_tool(nameless)


@pytest.mark.parametrize("names", [("a", "a_b"), ("a_b", "a"), ("a_b_c", "a_b"), ("",)])
def test_names_that_cannot_be_told_apart_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(LocalError, match=r"MultiClient\(\)"):
        MultiClient({name: app_named("x") for name in names})
    numbers: Any = {1: app_named("x")}
    with pytest.raises(LocalError, match="servers must be a dict of targets by name"):
        MultiClient(numbers)


# ---- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_file_opens_a_client_for_each_of_its_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK_OF_TEST", "marked")
    (tmp_path / "work").mkdir()
    async with listening(app_named("web").asgi()) as port:
        servers = {
            "plain": entry(tmp_path, "plain"),
            "full": entry(tmp_path, "full", env={"MARK": "${MARK_OF_TEST}"}, cwd=str(tmp_path / "work"), type="stdio"),
            "web": {
                "url": f"http://127.0.0.1:{port}/mcp",
                "headers": {"X-Mark": "${ABSENT:-none}"},
                "transport": "http",
            },
            "typed": {"httpUrl": f"http://127.0.0.1:{port}/mcp", "type": "sse"},
            "off": {"command": "/does/not/exist", "disabled": True},
        }
        path = tmp_path / "claude_desktop_config.json"
        path.write_text("\ufeff" + json.dumps({"mcpServers": servers}), encoding="utf-8")
        async with MultiClient.from_config(path) as multi:
            assert [*multi.clients] == ["plain", "full", "web", "typed"] and multi.errors == {}
            assert multi.clients["full"].server.name == "full"
            names = [tool.name for tool in await multi.list_tools()]
            assert names == ["plain_where", "full_where", "web_where", "typed_where"]
            assert text_of(await multi.call_tool("full_where", {"text": "x"})) == "full marked work x"
            assert text_of(await multi.call_tool("plain_where", {"text": "y"})).startswith("plain - ")
            assert text_of(await multi.call_tool("web_where", {"text": "z"})) == "web z"
            templates = [template.uri_template for template in await multi.list_resource_templates()]
            assert templates == ["note://plain/days/{day}", "note://full/days/{day}"]
            assert (await multi.read_resource("note://full/days/monday")).contents[0].text == "full monday"


WRONG_ENTRIES: list[tuple[Any, str]] = [
    ("uvx server", "is not an object"),
    ({}, "'command' is missing"),
    ({"command": ""}, "'command' is missing"),
    ({"command": 5}, "'command' must be a string"),
    ({"command": "x", "args": "server.py"}, "'args' must be a list"),
    ({"command": "x", "args": [1]}, "'args' must be a string"),
    ({"command": "x", "env": {"PORT": 80}}, "'env' must be a string"),
    ({"command": "x", "env": ["A=1"]}, "'env' must be an object"),
    ({"command": "x", "cwd": 3}, "'cwd' must be a string"),
    ({"command": "x", "url": "http://localhost"}, "cannot have"),
    ({"command": "x", "transport": "websocket"}, "no transport 'websocket'"),
    ({"command": "x", "type": "http"}, "cannot have"),
    ({"url": 5}, "'url' must be a string"),
    ({"url": "http://localhost", "headers": {"A": None}}, "'headers' is missing"),
    ({"url": "http://localhost", "headers": {"A": "${NOT_SET_AT_ALL}"}}, "NOT_SET_AT_ALL, which is not set"),
    ({"type": "http"}, "'url' is missing"),
]


@pytest.mark.parametrize(("wrong", "reason"), WRONG_ENTRIES, ids=[str(number) for number in range(len(WRONG_ENTRIES))])
async def test_a_wrong_entry_is_left_out_with_its_reason(
    wrong: Any, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    multi = MultiClient.from_config({"mcpServers": {"wrong": wrong, "right": entry(tmp_path, "right")}})
    assert [*multi.clients] == ["right"] and reason in str(multi.errors["wrong"])
    assert "'wrong' is left out" in caplog.text


@pytest.mark.parametrize(
    ("entry", "key"),
    [({"command": "x", "headers": {"A": "b"}}, "headers"), ({"serverUrl": "http://localhost/mcp", "cwd": "/"}, "cwd")],
)
def test_a_key_without_a_meaning_is_in_the_log(entry: Any, key: str, caplog: pytest.LogCaptureFixture) -> None:
    """Other programs read the file as well: the server is not left out for that."""
    multi = MultiClient.from_config({"mcpServers": {"one": entry}})
    assert [*multi.clients] == ["one"] or "needs httpx2" in str(multi.errors["one"])  # As in the base installation.
    assert f"the server 'one': '{key}' is for a server with a" in caplog.text
    caplog.clear()
    MultiClient.from_config({"mcpServers": {"one": {**entry, key: None}, "two": {**entry, "disabled": True}}})
    assert "is for a server with a" not in caplog.text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"mcpServers": []}', '{"mcpServers": null}', "{", "\x00", '"x"'])
def test_a_file_without_servers_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(LocalError, match=r"from_config\(\): .*config\.json"):
        MultiClient.from_config(path)
    with pytest.raises(LocalError, match="cannot be read"):
        MultiClient.from_config(tmp_path / "absent.json")


# ---- failures --------------------------------------------------------------------------------------------------------


class Failing(OldServer):
    async def list_tools(self, ctx: Any, params: Any) -> old.ListToolsResult:
        raise ValueError("broken")


@pytest.mark.long
async def test_a_server_that_fails_harms_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    dead = {"command": sys.executable, "args": ["-c", "raise SystemExit('out of order')"]}
    servers = {
        "dead": dead,
        "missing": {"command": str(tmp_path / "missing")},
        "closed": {"url": "http://127.0.0.1:9/mcp"},
        "right": entry(tmp_path, "right"),
    }
    async with MultiClient.from_config({"mcpServers": servers}) as multi:
        assert [*multi.clients] == ["right"] and {*multi.errors} == {"dead", "missing", "closed"}
        assert "out of order" in str(multi.errors["dead"])
        assert [tool.name for tool in await multi.list_tools()] == ["right_where"]
        with pytest.raises(LocalError, match="left out: .*dead"):
            await multi.call_tool("dead_where", {"text": "x"})
    assert "'dead' is left out" in caplog.text


async def test_a_list_that_fails_is_left_out_and_named() -> None:
    async with MultiClient({"bad": Failing(name="bad", version="1"), "good": app_named("good")}) as multi:
        assert [tool.name for tool in await multi.list_tools()] == ["good_where"]
        assert {*multi.errors} == {"bad"} and {*multi.clients} == {"bad", "good"}


async def test_lines_of_standard_error_carry_the_name_of_their_server() -> None:
    lines: list[tuple[str, str]] = []
    program = "import sys; print('starting', file=sys.stderr); sys.exit(1)"
    entries = {name: {"command": sys.executable, "args": ["-c", program]} for name in ("one", "two")}
    async with MultiClient.from_config({"mcpServers": entries}, stderr=lambda *line: lines.append(line)) as multi:
        assert [*multi.errors] == ["one", "two"]
    assert sorted(lines) == [("one", "starting"), ("two", "starting")]


def test_only_the_second_of_two_names_that_clash_is_left_out() -> None:
    entries = {name: {"command": "server"} for name in ("notes", "notes_old", "files", "a_b", "a")}
    multi = MultiClient.from_config({"mcpServers": entries})
    assert [*multi.clients] == ["notes", "files", "a_b"] and [*multi.errors] == ["notes_old", "a"]
    assert "'notes_old' begins with 'notes_': rename" in str(multi.errors["notes_old"])
