"""`Tool`, `Resource`, `ResourceTemplate` and `Prompt` of FastMCP as objects: run, changed and added to a server."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_generated.compat import StandaloneFastMCP, ToolError
from mcp_products.compat.forms.errors import PromptError, ValidationError
from mcp_products.compat.forms.form import FORM
from mcp_products.compat.sessions.fastmcp_client import Client
from mcp_products.compat.standalone.components import (
    ArgTransform,
    Component,
    FunctionResource,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
    TransformedTool,
    forward,
)
from mcp_products.compat.standalone.results import (
    Message,
    PromptResult,
    ResourceContent,
    ResourceResult,
    ToolResult,
)


def price(item: str, count: int = 1) -> float:
    """Return a price.

    Args:
        item: What is sold.
    """
    if count < 0:
        raise RuntimeError("a negative count")
    return 1.0 * len(item) * count


async def test_a_tool_of_a_function_says_what_it_is_and_runs() -> None:
    tool = Tool.from_function(price, tags={"shop"}, version=2)
    assert (tool.name, tool.description, tool.version, tool.tags) == ("price", "Return a price.", "2", {"shop"})
    assert tool.parameters["required"] == ["item"]
    assert tool.output_schema is not None and tool.output_schema["properties"] == {"result": {"type": "number"}}
    result = await tool.run({"item": "tea", "count": 2})
    assert (result.structured_content, result.content[0].text) == ({"result": 6.0}, "6.0")
    shown = tool.to_mcp_tool(name="sold_price")
    assert isinstance(shown, FORM.types.Tool)
    assert (shown.name, shown.title, shown.meta) == (
        "sold_price",
        "Sold Price",
        {"fastmcp": {"tags": ["shop"], "version": "2"}},
    )


async def test_a_tool_raises_what_its_function_raises_and_refuses_wrong_arguments() -> None:
    tool = Tool.from_function(price)
    with pytest.raises(RuntimeError, match="a negative count"):
        await tool.run({"item": "tea", "count": -1})
    with pytest.raises(ValueError, match="count"):
        await tool.run({"item": "tea", "count": "many"})


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda item: item, "a name for lambda functions"),
        (eval("lambda *items: items"), "a name for lambda functions"),
        (int, "int"),
    ],
)
def test_what_cannot_be_a_tool_is_a_value_error(function: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Tool.from_function(function)


@pytest.mark.parametrize("kind", [Tool, Prompt])
def test_a_component_takes_no_variadic_parameters(kind: type[Any]) -> None:
    def many(*items: str) -> str:
        return "".join(items)

    with pytest.raises(ValueError, match=r"Functions with \*args are not supported"):
        kind.from_function(many)


async def test_a_tool_is_changed_run_and_added_to_a_server() -> None:
    async def doubled(**arguments: Any) -> float:
        result = await forward(**arguments)
        assert isinstance(result, ToolResult) and isinstance(result.content[0], FORM.types.TextContent)
        return 2 * float(result.structured_content["result"])

    parent = Tool.from_function(price)
    renamed = Tool.from_tool(parent, "cost", transform_args={"item": ArgTransform(name="thing")})
    changed = Tool.from_tool(renamed, "double", transform_fn=doubled)
    assert isinstance(changed, TransformedTool) and changed.parent_tool is renamed
    assert sorted(changed.parameters["properties"]) == ["count", "thing"]
    assert (await changed.run({"thing": "tea"})).structured_content == {"result": 6.0}
    server = StandaloneFastMCP("shop", tools=[parent, renamed])
    server.add_tool(changed)
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["price", "cost", "double"]
        assert (await client.call_tool("double", {"thing": "tea", "count": 2})).data == 12.0
    found = await server.get_tool("price")
    assert isinstance(found, Tool) and found.parameters == parent.parameters
    assert (await server.call_tool("price", {"item": "tea"})).structured_content == {"result": 3.0}
    with pytest.raises(ToolError, match="a negative count"):
        await server.call_tool("price", {"item": "tea", "count": -1})


def test_changes_that_do_not_fit_are_value_errors() -> None:
    with pytest.raises(ValueError, match="not both"):
        ArgTransform(default=1, default_factory=int, hide=True)
    with pytest.raises(ValueError, match="no argument 'size'"):
        Tool.from_tool(price, transform_args={"size": ArgTransform(name="x")})


async def test_a_subclass_of_a_tool_runs_in_a_server() -> None:
    class Echo(Tool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult(arguments["text"], {"said": arguments["text"]})

    server = StandaloneFastMCP("echo")
    server.add_tool(Echo(name="echo", parameters={"type": "object", "properties": {"text": {"type": "string"}}}))
    async with Client(server) as client:
        result = await client.call_tool("echo", {"text": "hello"})
    assert (result.content[0].text, result.structured_content) == ("hello", {"said": "hello"})


async def test_a_resource_and_a_template_are_read_and_added() -> None:
    def note(name: str, tags: list[str] | None = None) -> ResourceResult | str:
        return f"{name}: {tags}"

    resource = Resource.from_function(lambda: b"data", "notes://all", name="all", mime_type="image/png")
    assert await resource.read() == b"data"
    assert resource.convert_result(b"data").contents == [ResourceContent(b"data", "image/png")]
    template = ResourceTemplate.from_function(note, "notes://{name}{?tags}")
    values = template.matches("notes://tea?tags=a,b")
    assert values == {"name": "tea", "tags": ["a", "b"]}
    assert await template.read(values) == "tea: ['a', 'b']"
    made = await template.create_resource("notes://tea", {"name": "tea"})
    assert isinstance(made, FunctionResource) and await made.read() == "tea: None"
    server = StandaloneFastMCP("notes")
    server.add_resource(resource)
    server.add_resource(template)
    async with Client(server) as client:
        assert (await client.read_resource("notes://all"))[0].mime_type == "image/png"
        assert (await client.read_resource("notes://coffee"))[0].text == "coffee: None"


async def test_a_value_of_a_template_that_does_not_fit_is_a_value_error() -> None:
    def page(number: int, draft: bool = False) -> str:
        return f"{number} {draft}"

    template = ResourceTemplate.from_function(page, "pages://{number}{?draft}")
    assert await template.read({"number": "2", "draft": "yes"}) == "2 True"
    with pytest.raises(ValueError, match="invalid literal for int"):
        await template.read({"number": "two"})
    with pytest.raises(ValueError, match="Invalid boolean value for draft: 'maybe'"):
        await template.read({"number": "2", "draft": "maybe"})


async def test_a_prompt_is_rendered_and_added() -> None:
    def ask(topic: str, numbers: list[int]) -> list[Message | str]:
        return [f"About {topic}", Message(f"{sum(numbers)}", role="assistant")]

    prompt = Prompt.from_function(ask)
    assert [item.name for item in prompt.arguments or []] == ["topic", "numbers"]
    result = await prompt.render({"topic": "tea", "numbers": "[1, 2]"})
    assert isinstance(result, PromptResult)
    assert [(item.role, item.content.text) for item in result.messages] == [("user", "About tea"), ("assistant", "3")]
    with pytest.raises(ValidationError, match="Missing required arguments: {'numbers'}"):
        await prompt.render({"topic": "tea"})
    with pytest.raises(PromptError, match="numbers"):
        await prompt.render({"topic": "tea", "numbers": "three"})
    server = StandaloneFastMCP("prompts")
    server.add_prompt(prompt)
    async with Client(server) as client:
        assert (await client.get_prompt("ask", {"topic": "tea", "numbers": [1]})).messages[1].content.text == "1"
        assert (await client.list_prompts_mcp()).prompts[0].name == "ask"


def test_results_are_made_of_plain_values() -> None:
    assert ToolResult(structured_content={"a": 1}).content[0].text == '{"a":1}'
    with pytest.raises(ValueError, match="must be provided"):
        ToolResult()
    with pytest.raises(ValueError, match="must be a dict"):
        ToolResult(structured_content=[1])
    assert PromptResult("hello").messages == [Message("hello")]
    with pytest.raises(TypeError, match=r"messages\[0\] must be Message, got int"):
        PromptResult([1])
    assert ResourceContent({"a": 1}).mime_type == "application/json"
    contents = ResourceResult([ResourceContent("x"), ResourceContent(b"y")]).to_mcp_result("a://b").contents
    assert [type(item).__name__ for item in contents] == ["TextResourceContents", "BlobResourceContents"]
    with pytest.raises(TypeError, match="contents must be str, bytes"):
        ResourceResult(1)


async def test_a_base_class_says_what_a_subclass_must_have() -> None:
    assert Component(name="x").settings() == {"name": "x"}
    with pytest.raises(NotImplementedError, match="implement run"):
        await Tool(name="x", parameters={}).run({})
    with pytest.raises(NotImplementedError, match="implement read"):
        await Resource(uri="a://b").read()
    with pytest.raises(NotImplementedError, match="implement render"):
        await Prompt(name="x").render()
