"""Functions as `tools=` of `ctx.sample`, and the handlers that call the models of a provider."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Client, Context, JSONRPCError, LocalError, RemoteJSONRPCError, UserMessage
from mcp_generated.sampling import AnthropicSamplingHandler, GoogleGenaiSamplingHandler, OpenAISamplingHandler
from mcp_generated.v2025_06_18 import Client as OldClient
from mcp_generated.v2025_11_25 import Client as HandshakeClient
from mcp_generated.v2026_07_28 import Client as StatelessClient

Item = SimpleNamespace
TOOLS = {"sampling": {"tools": {}}}


def called(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the block with which a model calls a tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def scripted(kind: Any, answers: list[Any], requests: list[Any]) -> Any:
    """Return a class of clients whose model answers so, in this order."""

    class Scripted(kind):  # type: ignore[misc]
        async def on_create_message(self, ctx: Any, params: Any) -> Any:
            requests.append(params.model_dump())
            content = answers.pop(0)
            fields = {"role": "assistant", "content": content, "model": "m"}
            types = __import__(type(params).__module__, fromlist=["CreateMessageResult"])
            return types.CreateMessageResult.model_validate(fields)

    return Scripted


CALLS: list[Any] = []


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first one.
    """
    CALLS.append((a, b))
    return a + b


async def weather(city: str) -> str:
    if city == "Atlantis":
        raise ValueError("there is no such city")
    return f"sun in {city}"


def researching(tools: Any, **settings: Any) -> App:
    """Return an app whose tool samples with these tools."""
    app = App("research", tool_errors=(Exception,))

    @app.tool
    async def research(ctx: Context) -> str:
        result = await ctx.sample("What is it?", tools=tools, **settings)
        return json.dumps([result.text, result.result, len(result.history)])

    return app


@pytest.mark.parametrize("kind", [HandshakeClient, StatelessClient])
async def test_the_model_calls_functions_until_it_answers(kind: Any) -> None:
    CALLS.clear()
    requests: list[Any] = []
    answers = [
        [called("1", "add", a=1, b=2), called("2", "weather", city="Rome")],
        called("3", "add", a=5),
        {"type": "text", "text": "done"},
    ]
    client_class = scripted(kind, answers, requests)
    async with client_class.memory(researching([add, weather]), capabilities=TOOLS) as client:
        result = await client.call_tool("research")
    assert json.loads(result.content[0].text) == ["done", "done", 6]
    assert CALLS == [(1, 2), (5, 1)], "a function that runs again does not call them again"
    [first, second, third] = requests
    [definition, _] = first["tools"]
    assert definition["name"] == "add"
    assert definition["inputSchema"]["properties"]["a"] == {"type": "integer", "description": "The first one."}
    assert "outputSchema" not in definition
    results = second["messages"][-1]
    assert results["role"] == "user"
    assert [(block["toolUseId"], block["content"][0]["text"]) for block in results["content"]] == [
        ("1", "3"),
        ("2", "sun in Rome"),
    ]
    assert third["messages"][-1]["content"][0]["content"][0]["text"] == "6"


async def test_a_call_that_fails_is_an_error_result_for_the_model() -> None:
    requests: list[Any] = []
    answers = [
        [called("1", "add", a="x"), called("2", "weather", city="Atlantis")],
        {"type": "text", "text": "sorry"},
    ]
    client_class = scripted(StatelessClient, answers, requests)
    async with client_class.memory(researching([add, weather]), capabilities=TOOLS) as client:
        await client.call_tool("research")
    blocks = requests[1]["messages"][-1]["content"]
    assert [block["isError"] for block in blocks] == [True, True]
    assert "no such city" in blocks[1]["content"][0]["text"]


async def test_a_result_type_is_read_from_the_message_after_the_calls() -> None:
    answers = [called("1", "add", a=1), {"type": "text", "text": "[2]"}]
    client_class = scripted(HandshakeClient, answers, [])
    async with client_class.memory(researching([add], result_type=list[int]), capabilities=TOOLS) as client:
        result = await client.call_tool("research")
    assert json.loads(result.content[0].text)[1] == [2]


async def test_calls_of_a_tool_that_is_only_a_definition_go_to_the_function() -> None:
    definition = {"name": "other", "inputSchema": {"type": "object"}}
    client_class = scripted(HandshakeClient, [called("1", "other")], [])
    async with client_class.memory(researching([add, definition]), capabilities=TOOLS) as client:
        result = await client.call_tool("research")
    assert json.loads(result.content[0].text)[0] is None


async def test_a_model_that_never_answers_is_stopped() -> None:
    client_class = scripted(HandshakeClient, [called(str(number), "add", a=1) for number in range(30)], [])
    async with client_class.memory(researching([add]), capabilities=TOOLS) as client:
        result = await client.call_tool("research")
    assert result.is_error
    assert "25 messages in a row" in result.content[0].text


def variadic(*numbers: int) -> None: ...


@pytest.mark.parametrize(
    "tools, text", [([add, add], "two of the tools"), (add, "must be a list"), ([variadic], "variadic")]
)
async def test_wrong_tools_are_refused(tools: Any, text: str) -> None:
    client_class = scripted(HandshakeClient, [], [])
    async with client_class.memory(researching(tools), capabilities=TOOLS) as client:
        result = await client.call_tool("research")
    assert result.is_error
    assert text in result.content[0].text


# ---- handlers --------------------------------------------------------------------------------------------------------


class Recorded:
    """A provider's client: it records what it gets, and returns the answers."""

    def __init__(self, *answers: Any) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = [*answers]
        own = Item(create=self.create, generate_content=self.create)
        self.messages = own
        self.chat = Item(completions=own)
        self.aio = Item(models=own)

    async def create(self, **request: Any) -> Any:
        self.requests.append(json.loads(json.dumps(request)))  # It is plain JSON.
        return self._answers.pop(0)


def openai_answer(text: str | None, reason: str, *calls: Any) -> Any:
    functions = [Item(id=id, function=Item(name=name, arguments=json.dumps(value))) for id, name, value in calls]
    message = Item(content=text, tool_calls=functions or None)
    return Item(model="gpt-x", choices=[Item(message=message, finish_reason=reason)])


def anthropic_answer(text: str | None, reason: str, *calls: Any) -> Any:
    blocks = [] if text is None else [Item(type="text", text=text)]
    blocks += [Item(type="tool_use", id=id, name=name, input=value) for id, name, value in calls]
    return Item(model="claude-x", content=blocks, stop_reason=reason)


def google_answer(text: str | None, reason: str, *calls: Any) -> Any:
    parts = [] if text is None else [Item(text=text, function_call=None)]
    parts += [Item(text=None, function_call=Item(id=id, name=name, args=value)) for id, name, value in calls]
    return Item(candidates=[Item(content=Item(parts=parts), finish_reason=Item(value=reason))])


PROVIDERS: dict[str, tuple[Any, Callable[..., Any], tuple[str, str]]] = {
    "openai": (OpenAISamplingHandler, openai_answer, ("tool_calls", "stop")),
    "anthropic": (AnthropicSamplingHandler, anthropic_answer, ("tool_use", "end_turn")),
    "google": (GoogleGenaiSamplingHandler, google_answer, ("STOP", "STOP")),
}


def with_handler(kind: Any, handler: Any) -> Any:
    """Return a class of clients with a handler."""
    return type("Sampling", (kind,), {"on_create_message": staticmethod(handler)})


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", [OldClient, HandshakeClient, StatelessClient])
async def test_a_handler_answers_with_the_text_of_the_model(provider: str, kind: Any) -> None:
    handler_class, answer, (_, stop) = PROVIDERS[provider]
    recorded = Recorded(answer("sunny", stop))
    app, results = App("app"), list[Any]()

    @app.tool
    async def research(ctx: Context) -> None:
        results.append(await ctx.sample("How is it?", 20, system_prompt="Be short.", model_preferences="big"))

    handler = handler_class("small", recorded, models=["big-one"])
    async with with_handler(kind, handler).memory(app) as client:
        assert not (await client.call_tool("research")).is_error
    [request] = recorded.requests
    assert request["model"] == "big-one"
    assert "How is it?" in json.dumps(request)
    assert "Be short." in json.dumps(request)
    assert (results[-1].text, results[-1].stop_reason) == ("sunny", "endTurn")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_handler_passes_tools_calls_and_results_on(provider: str) -> None:
    handler_class, answer, (call, stop) = PROVIDERS[provider]
    recorded = Recorded(answer(None, call, ("c1", "add", {"a": 2, "b": 3})), answer("five", stop))
    handler = handler_class("model", recorded)
    client_class = with_handler(HandshakeClient, handler)
    async with client_class.memory(researching([add], tool_choice={"mode": "auto"}), capabilities=TOOLS) as client:
        result = await client.call_tool("research")
    assert json.loads(result.content[0].text)[0] == "five"
    first, second = (json.dumps(request) for request in recorded.requests)
    assert "Add two numbers." in first
    assert "add" in second
    assert {
        "openai": '{"role": "tool", "tool_call_id": "c1", "content": "5"}',
        "anthropic": '{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "5"}]}',
        "google": '{"function_response": {"id": "c1", "name": "add", "response": {"result": "5"}}}',
    }[provider] in second


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("lifecycle", ["handshake", "modern"])
async def test_a_handler_is_the_function_of_a_client_of_any_version(provider: str, lifecycle: str) -> None:
    handler_class, answer, (call, stop) = PROVIDERS[provider]
    recorded = Recorded(answer(None, call, ("c1", "add", {"a": 2, "b": 3})), answer("five", stop))
    handler = handler_class("model", recorded)
    app = researching([add], tool_choice={"mode": "auto"})
    async with Client(app, revisions=lifecycle, sampling=handler, capabilities=TOOLS) as client:
        assert json.loads((await client.call_tool("research")).text)[0] == "five"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_handler_passes_images_on(provider: str) -> None:
    from mcp_generated import Image

    handler_class, answer, (_, stop) = PROVIDERS[provider]
    recorded = Recorded(answer("a cat", stop))
    app = App("app", tool_errors=(Exception,))

    @app.tool
    async def look(ctx: Context) -> str:
        return str((await ctx.sample([UserMessage(Image(data=b"\x01")), "What is it?"])).text)

    async with with_handler(StatelessClient, handler_class("model", recorded)).memory(app) as client:
        assert (await client.call_tool("look")).content[0].text == "a cat"
    assert "AQ==" in json.dumps(recorded.requests)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_content_that_a_provider_does_not_accept_is_named(provider: str) -> None:
    from mcp_generated import Audio

    handler_class, _, _ = PROVIDERS[provider]
    app = App("app", tool_errors=(Exception,))

    @app.tool
    async def listen(ctx: Context) -> str:
        return str((await ctx.sample([UserMessage(Audio(data=b"\x01", format="ogg"))])).text)

    async with with_handler(HandshakeClient, handler_class("model", Recorded())).memory(app) as client:
        result = await client.call_tool("listen")
    assert "do not accept content of type 'audio'" in result.content[0].text


def test_content_of_a_kind_that_no_provider_has_is_refused() -> None:
    handler = GoogleGenaiSamplingHandler("model", Recorded())
    for kind in ("resource_link", "video", ""):
        with pytest.raises(JSONRPCError, match=f"do not accept content of type '{kind}'"):
            handler._parts({"type": kind}, {})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_the_package_the_message_says_what_to_install(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handler_class, _, _ = PROVIDERS[provider]
    for name in ("openai", "anthropic", "google.genai"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(LocalError, match=r"pip install (openai|anthropic|google-genai), or pass client="):
        handler_class("model")


async def test_without_a_model_the_error_names_the_capability() -> None:
    async with connect(researching([add])) as client:
        with pytest.raises(RemoteJSONRPCError, match="client.sampling.tools"):
            await client.call_tool("research")
