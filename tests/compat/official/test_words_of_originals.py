"""What servers of compat list and answer, in the words of the originals: mcp 1.30, mcp 2.3 and fastmcp 4.2.

The texts are what the originals answered; tests/interop/test_words_of_originals.py asks them again.
"""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
import pytest

from mcp_generated import App, connect
from mcp_generated.compat import FastMCP, MCPServer, StandaloneFastMCP, ToolError
from mcp_runtime.errors import RemoteJSONRPCError

OFFICIAL = [FastMCP, MCPServer]
ALL = [*OFFICIAL, StandaloneFastMCP]
DOCS = f"    For further information visit https://errors.pydantic.dev/{pydantic.VERSION.rpartition('.')[0]}/v/"


class Item(pydantic.BaseModel):
    number: int


def even(value: int) -> int:
    if value % 2:
        raise ValueError("{value} is odd")
    return value


def shop(kind: Any) -> Any:
    server = kind("shop")

    @server.tool()
    def add(a: int, b: int = 0) -> int:
        return a + b

    @server.tool()
    def fail() -> str:
        raise ValueError("secret")

    @server.tool()
    def refuse() -> str:
        raise ToolError("told")

    @server.tool()
    def items(given: list[Item], size: Annotated[float, pydantic.Field(gt=0)] = 1.0, rest: Any = 3) -> list[Item]:
        return given

    @server.prompt()
    def ask(about: str) -> str:
        return about

    @server.resource("shop://failed")
    def failed() -> str:
        raise ValueError("secret")

    return server


async def texts(kind: Any, *calls: tuple[str, dict[str, Any]]) -> list[tuple[str, bool | None]]:
    async with connect(shop(kind)) as client:
        results = [await client.call_tool(name, arguments, raise_on_error=False) for name, arguments in calls]
    return [(result.content[0].text, result.is_error) for result in results]


@pytest.mark.parametrize("kind", OFFICIAL)
async def test_schemas_of_the_official_sdk_have_titles_and_allow_other_arguments(kind: Any) -> None:
    async with connect(shop(kind)) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
    assert tools["add"].to_dict() == {
        "name": "add",
        "description": "",
        "inputSchema": {
            "type": "object",
            "title": "addArguments",
            "properties": {
                "a": {"title": "A", "type": "integer"},
                "b": {"title": "B", "type": "integer", "default": 0},
            },
            "required": ["a"],
        },
        "outputSchema": {
            "type": "object",
            "title": "addOutput",
            "properties": {"result": {"title": "Result", "type": "integer"}},
            "required": ["result"],
        },
    }
    schema = tools["items"].to_dict()["inputSchema"]
    assert schema["$defs"]["Item"]["properties"] == {"number": {"title": "Number", "type": "integer"}}
    assert schema["properties"]["rest"] == {"title": "Rest", "default": 3}


async def test_schemas_of_fastmcp_have_no_titles_and_allow_no_other_arguments() -> None:
    async with connect(shop(StandaloneFastMCP)) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
    assert tools["add"].to_dict()["inputSchema"] == {
        "type": "object",
        "additionalProperties": False,
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 0}},
        "required": ["a"],
    }
    assert tools["add"].to_dict()["outputSchema"]["x-fastmcp-wrap-result"] is True


@pytest.mark.parametrize("kind", OFFICIAL)
async def test_the_official_sdk_forgets_unknown_arguments_and_shows_the_error_of_its_model(kind: Any) -> None:
    own_type = "[type=int_parsing, input_value='x', input_type=str]"
    hidden = "" if kind is MCPServer else ": secret"
    assert await texts(
        kind,
        ("add", {"a": 1, "other": 3}),
        ("add", {"a": "x"}),
        ("add", {"other": 3}),
        ("items", {"given": [{"number": 1}, {}]}),
        ("fail", {}),
        ("refuse", {}),
        ("none", {}),
    ) == [
        ("1", False),
        (
            "Error executing tool add: 1 validation error for addArguments\na\n  Input should be a valid integer,"
            f" unable to parse string as an integer {own_type}\n{DOCS}int_parsing",
            True,
        ),
        (
            "Error executing tool add: 1 validation error for addArguments\na\n  Field required [type=missing,"
            f" input_value={{'other': 3}}, input_type=dict]\n{DOCS}missing",
            True,
        ),
        (
            "Error executing tool items: 1 validation error for itemsArguments\ngiven.1.number\n  Field required"
            f" [type=missing, input_value={{}}, input_type=dict]\n{DOCS}missing",
            True,
        ),
        (f"Error executing tool fail{hidden}", True),
        ("Error executing tool refuse: told", True),
        ("Unknown tool: none", True),
    ]


async def test_fastmcp_refuses_unknown_arguments_and_says_so_as_a_call_does() -> None:
    assert await texts(
        StandaloneFastMCP,
        ("add", {"a": 1, "other": 3}),
        ("add", {}),
        ("fail", {}),
        ("refuse", {}),
        ("none", {}),
    ) == [
        (
            "1 validation error for call[add]\nother\n  Unexpected keyword argument [type=unexpected_keyword_argument,"
            f" input_value=3, input_type=int]\n{DOCS}unexpected_keyword_argument",
            True,
        ),
        (
            "1 validation error for call[add]\na\n  Missing required argument [type=missing_argument, input_value={},"
            f" input_type=dict]\n{DOCS}missing_argument",
            True,
        ),
        ("Error calling tool 'fail': secret", True),
        ("told", True),
        ("Unknown tool: 'none'", True),
    ]


@pytest.mark.parametrize("kind", ALL)
async def test_prompts_and_resources_are_refused_in_the_words_of_the_original(kind: Any) -> None:
    async with connect(shop(kind)) as client:
        said = []
        for request in (
            lambda: client.get_prompt("none"),
            lambda: client.get_prompt("ask"),
            lambda: client.read_resource("shop://none"),
            lambda: client.read_resource("shop://failed"),
        ):
            with pytest.raises(RemoteJSONRPCError) as raised:
                await request()
            said.append(raised.value.message.partition("; ")[0])  # The client adds what exists.
        unknown = {"about": "tea", "other": "x"}
        if kind is StandaloneFastMCP:
            assert (await client.get_prompt("ask", unknown)).messages[0].content.text == "tea"
        else:
            with pytest.raises(RemoteJSONRPCError):
                await client.get_prompt("ask", unknown)
    missing = "Missing required arguments: {'about'}"
    assert (
        said
        == {
            FastMCP: [
                *("Unknown prompt: none", missing, "Unknown resource: shop://none"),
                "Error reading resource shop://failed: secret",
            ],
            MCPServer: [
                *("Unknown prompt: none", missing, "Unknown resource: shop://none"),
                "Error reading resource shop://failed",
            ],
            StandaloneFastMCP: [
                *("Unknown prompt: 'none'", missing, "Resource not found: 'shop://none'"),
                "Error reading resource 'shop://failed': secret",
            ],
        }[kind]
    )


async def test_an_app_stays_strict() -> None:
    [(text, is_error)] = await texts(App, ("add", {"a": 1, "other": 3}))
    assert (text, is_error) == ("the tool 'add': invalid arguments: other: Extra inputs are not permitted", True)


@pytest.mark.parametrize("kind", ALL)
async def test_an_error_of_a_type_of_the_program_keeps_its_text(kind: Any) -> None:
    server = kind("shop")

    def half(a: Annotated[int, pydantic.AfterValidator(even)]) -> float:
        return a / 2

    server.add_tool(half)
    async with connect(server) as client:
        result = await client.call_tool("half", {"a": 1}, raise_on_error=False)
    assert "Value error, {value} is odd [type=value_error, input_value=1, input_type=int]" in result.content[0].text
