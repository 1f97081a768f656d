"""Clauses that a library can only help with: what it gives for them works the same with a handshake and without one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mcp_generated import App
from mcp_generated.v2026_07_28.types import ImageContent
from mcp_runtime.errors import ErrorResponse, LocalError, McpError, NotAllowed, Refusal
from mcp_runtime.faces.rates import Allowance, Rate
from mcp_runtime.faces.roots import is_within, readable
from mcp_runtime.faces.suggest import rank
from mcp_runtime.faces.tools import Tools
from mcp_runtime.faces.web import is_on_web
from mcp_runtime.wire import reader

from .support import EVERY, INVALID_PARAMS, Rev, among, clause, client_of, server_of, since

FORM = {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
SECRET = "the launch code is 4711"


def of_draft(page: str, *numbers: int) -> pytest.MarkDecorator:
    return clause(*(f"draft/{page}/{number:02}" for number in numbers))


def both(page: str, *numbers: tuple[int, int, int]) -> pytest.MarkDecorator:
    """Clauses of the two revisions of the seeds and of their draft, by their numbers there."""
    revisions = ("2024-11-05", "2025-03-26", "draft")
    return clause(*(f"{rev}/{page}/{n:02}" for each in numbers for rev, n in zip(revisions, each, strict=True)))


def sampling_server(rev: Rev, heard: list[str]) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        message = reader(rev.t.SamplingMessage)({"role": "user", "content": {"type": "text", "text": SECRET}})
        answer = await ctx.create_message(messages=[message], max_tokens=5)
        heard.append(text_of(answer.content))
        return rev.text("done")

    return server_of(rev, call_tool=call_tool)


def text_of(content: Any) -> str:
    text: str = (content[0] if isinstance(content, list) else content).text
    return text


def said(rev: Rev, text: str) -> Any:
    content = {"type": "text", "text": text}
    return reader(rev.t.CreateMessageResult)({"role": "assistant", "model": "m", "content": content})


@both("sampling", (1, 1, 1), (7, 7, 7))
@among(EVERY)
async def test_a_person_can_deny_each_request_for_sampling(rev: Rev) -> None:
    heard: list[str] = []

    async def on_create_message(ctx: Any, params: Any) -> Any:
        raise Refusal(-1, "User rejected sampling request")

    async with client_of(rev, sampling_server(rev, heard), on_create_message=on_create_message) as client:
        with pytest.raises(McpError):
            await client.call_tool(name="x")
    assert heard == []


@both("sampling", (3, 3, 3), (4, 4, 4), (11, 11, 11))
@among(EVERY)
async def test_a_person_sees_and_changes_what_the_model_and_the_server_get_and_no_log_does(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    asked: list[str] = []

    async def on_create_message(ctx: Any, params: Any) -> Any:
        prompt = text_of(params.messages[0].content).replace("4711", "***")  # The person edits the prompt,
        asked.append(prompt)
        return said(rev, "never mind")  # and what the model has written.

    with caplog.at_level(logging.DEBUG):
        async with client_of(rev, sampling_server(rev, heard), on_create_message=on_create_message) as client:
            await client.call_tool(name="x")
    assert asked == ["the launch code is ***"] and heard == ["never mind"]
    assert not [message for message in caplog.messages if "4711" in message or "never mind" in message]


@both("sampling", (10, 10, 10))
@among(EVERY)
async def test_a_client_limits_how_often_it_samples(rev: Rev) -> None:
    heard: list[str] = []
    allowance = Allowance(Rate(per_second=0.001, burst=2))

    async def on_create_message(ctx: Any, params: Any) -> Any:
        if allowance.take():
            raise Refusal(-1, "too many requests")
        return said(rev, "yes")

    async with client_of(rev, sampling_server(rev, heard), on_create_message=on_create_message) as client:
        for _ in range(2):
            await client.call_tool(name="x")
        with pytest.raises(McpError):
            await client.call_tool(name="x")
    assert heard == ["yes", "yes"]


@of_draft("elicitation", 2, 4, 7, 9, 11)
@among(since("2025-06-18"))
async def test_a_person_knows_which_server_asks_and_declines_or_cancels(rev: Rev) -> None:
    answers = iter(["decline", "cancel", "accept"])
    servers: list[str] = []
    allowance = Allowance(Rate(per_second=0.001, burst=2))

    async def call_tool(ctx: Any, params: Any) -> Any:
        answer = await elicit(rev, ctx, FORM)
        return rev.text(f"{answer.action} {answer.content}")

    async def on_elicit(ctx: Any, params: Any) -> Any:
        info = ctx.state.server.model_dump()
        servers.append((info.get("serverInfo") or info["_meta"]["io.modelcontextprotocol/serverInfo"])["name"])
        action = "cancel" if allowance.take() else next(answers)
        return rev.t.ElicitResult(action=action)

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_elicit=on_elicit) as client:
        results = [text_of((await client.call_tool(name="x")).content) for _ in range(3)]
    assert results == ["decline None", "cancel None", "cancel None"] and servers == ["served"] * 3


async def elicit(rev: Rev, ctx: Any, asked: dict[str, Any]) -> Any:
    """Ask by a form; the first revision that has forms has no other mode."""
    if hasattr(rev.t, "ElicitRequestFormParams"):
        return await ctx.elicit(rev.t.ElicitRequestFormParams.model_validate(asked))
    schema = rev.t.RequestedSchema.model_validate(asked["requestedSchema"])
    return await ctx.elicit(message=asked["message"], requested_schema=schema)


@of_draft("elicitation", 1, 6)
@among(since("2025-06-18"))
async def test_a_form_that_asks_for_a_secret_is_a_warning(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    name = f"card_number_{rev.id}_{id(caplog)}"

    async def call_tool(ctx: Any, params: Any) -> Any:
        for each in ("postcard", name):
            asked = {"message": "?", "requestedSchema": {"type": "object", "properties": {each: {"type": "string"}}}}
            await elicit(rev, ctx, asked)
        return rev.text("done")

    async def on_elicit(ctx: Any, params: Any) -> Any:
        return rev.t.ElicitResult(action="decline")

    with caplog.at_level(logging.WARNING, "mcp_runtime"):
        async with client_of(rev, server_of(rev, call_tool=call_tool), on_elicit=on_elicit) as client:
            await client.call_tool(name="x")
    assert [each for each in caplog.messages if "form" in each] == [
        f"a form asks for {name!r}; what is secret is never asked for by a form"
    ]


@both("roots", (6, 6, 6), (8, 8, 8), (9, 9, 9), (10, 10, 10), (11, 11, 11), (19, 19, 19))
@among(EVERY)
async def test_a_client_tells_the_roots_it_permits_that_are_there_and_a_server_stays_inside(
    rev: Rev, tmp_path: Path
) -> None:
    permitted = [tmp_path / "one", tmp_path / "two"]
    for each in (*permitted, tmp_path / "private"):
        each.mkdir()

    async def call_tool(ctx: Any, params: Any) -> Any:
        roots = (await ctx.list_roots()).roots
        inside = [is_within(str(tmp_path / name / "file"), roots) for name in ("one", "two", "private")]
        return rev.text(f"{len(roots)} {inside}")

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        found = readable(str(path) for path in permitted)
        return reader(rev.t.ListRootsResult)({"roots": [{"uri": uri} for uri in found]})

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        assert text_of((await client.call_tool(name="x")).content) == "2 [True, True, False]"
        permitted[1].rmdir()
        assert text_of((await client.call_tool(name="x")).content) == "1 [True, False, False]"


@both("tools", (1, 1, 1), (4, 4, 4), (11, 12, 16))
@clause("2025-03-26/tools/07", "draft/tools/07")
@among(EVERY)
async def test_a_person_approves_each_call_of_a_tool_whatever_it_says_of_itself(rev: Rev) -> None:
    called: list[str] = []

    async def list_tools(ctx: Any, params: Any) -> Any:
        tool = {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        return rev.t.ListToolsResult(tools=[rev.t.Tool.model_validate(tool)])

    async def call_tool(ctx: Any, params: Any) -> Any:
        called.append(params.arguments["disk"])
        return rev.text("wiped")

    async def approve(name: str, arguments: Any) -> bool:
        return name == "wipe" and arguments["disk"] == "b"

    async with client_of(rev, server_of(rev, list_tools=list_tools, call_tool=call_tool)) as client:
        tools = Tools(client, approve)
        with pytest.raises(NotAllowed, match="the call of the tool 'wipe' was not approved"):
            await tools.call("wipe", {"disk": "a"})
        await tools.call("wipe", {"disk": "b"})
    assert called == ["b"]


def guarded_app(ran: list[str]) -> App:
    """An app with one of each, which nobody but those who are let in may use."""
    app = App("guarded")

    @app.tool()
    def launch() -> str:
        """Launch."""
        ran.append("launch")
        raise ValueError(SECRET)

    @app.resource("secret://{name}")
    def read(name: str) -> str:
        ran.append("read")
        return SECRET

    @app.prompt()
    def brief(city: str) -> str:
        ran.append("brief")
        return city

    @app.completion()
    async def complete(ref: Any, argument: Any) -> list[str]:
        ran.append("complete")
        return rank(["Berlin", "Bern", "Oberhausen", "Hamburg", "Brelin"], argument.value)

    return app


@both("tools", (8, 9, 13))
@both("resources", (8, 8, 9), (10, 10, 11))
@both("completion", (10, 15, 15))
@among(EVERY)
async def test_who_may_not_use_it_is_refused_before_anything_runs(rev: Rev) -> None:
    ran: list[str] = []
    app = guarded_app(ran)

    @app.middleware
    async def only_listing(name: str, ctx: Any, params: Any, go: Any) -> Any:
        if not name.startswith("list_"):
            raise Refusal(INVALID_PARAMS, "not for you")
        return await go(ctx, params)

    async with rev.package.Client.memory(app.server, revisions="all") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["launch"]
        for asking in (
            client.call_tool(name="launch"),
            client.read_resource(uri="secret://x"),
            client.complete(ref=ref(rev, "brief"), argument=rev.t.CompletionArgument(name="city", value="b")),
        ):
            with pytest.raises(ErrorResponse, match="not for you"):
                await asking
    assert ran == []


@both("resources", (3, 3, 3), (4, 4, 4))
@among(EVERY)
async def test_an_https_resource_is_one_that_clients_can_fetch_and_others_have_another_scheme(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    app, inner = App("press"), App("archive")
    app.mount(inner, "old")

    @app.resource("press://{number}")
    def draft(number: str) -> str:
        return f"draft {number}"

    @app.resource("press://index")
    def index() -> str:
        return "1, 2"

    @inner.resource("https://example.com/press/1", public=True)
    def release() -> str:
        return "release 1"

    assert not caplog.messages

    @app.resource("https://example.com/press/{number}/secret")
    def unsaid(number: str) -> str:
        return number

    [warning] = caplog.messages
    assert "'https://example.com/press/{number}/secret'" in warning and "another scheme" in warning
    with pytest.raises(LocalError, match="cannot be public"):
        app.resource("press://2", public=True)(index)

    async with rev.package.Client.memory(app.server, revisions="all") as client:
        uris = [each.uri for each in (await client.list_resources()).resources]
        assert [uri for uri in uris if is_on_web(uri)] == ["https://example.com/press/1"]
        said = {uri: (await client.read_resource(uri=uri)).contents[0].text for uri in uris}  # Who cannot, may ask.
        assert said == {"press://index": "1, 2", "https://example.com/press/1": "release 1"}


@pytest.mark.parametrize("uri", ["http://example.com/a", "https:///a", "https:a", "https://[a", "file:///https://a"])
def test_no_other_uri_is_fetched_from_the_web(uri: str) -> None:
    assert not is_on_web(uri)


def ref(rev: Rev, name: str) -> Any:
    return rev.t.PromptReference(name=name)


@both("completion", (1, 6, 6), (2, 7, 7), (11, 16, 16))
@among(EVERY)
async def test_suggestions_are_ranked_forgiving_and_only_of_what_is_known(rev: Rev) -> None:
    app = guarded_app([])
    async with rev.package.Client.memory(app.server, revisions="all") as client:

        async def suggested(name: str, typed: str) -> list[str]:
            argument = rev.t.CompletionArgument(name="city", value=typed)
            values: list[str] = (await client.complete(ref=ref(rev, name), argument=argument)).completion.values
            return values

        assert await suggested("brief", "ber") == ["Berlin", "Bern", "Oberhausen"]
        assert await suggested("brief", "Berln") == ["Berlin", "Bern", "Brelin"]
        assert await suggested("brief", "xyz") == []
        with pytest.raises(ErrorResponse, match="nothing to complete for"):
            await suggested("unknown", "ber")


@both("tools", (10, 11, 15))
@both("prompts", (13, 14, 14))
@among(EVERY)
async def test_no_exception_is_shown_to_a_model_and_what_a_prompt_needs_and_gives_is_checked(rev: Rev) -> None:
    ran: list[str] = []
    app = guarded_app(ran)

    @app.tool()
    def report() -> str:
        return f"all is well, and {SECRET}"

    @app.prompt()
    def picture() -> Any:
        return ImageContent(data="no base64", mime_type="image/png")

    @app.middleware
    async def clean(name: str, ctx: Any, params: Any, go: Any) -> Any:
        answer = await go(ctx, params)
        for block in getattr(answer, "content", ()):
            block.text = block.text.replace(SECRET, "***")
        return answer

    async with rev.package.Client.memory(app.server, revisions="all") as client:
        assert text_of((await client.call_tool(name="report")).content) == "all is well, and ***"
        with pytest.raises(ErrorResponse, match="internal error"):
            await client.get_prompt(name="picture")
        result = await client.call_tool(name="launch")
        assert (
            result.is_error and "4711" not in result.model_dump_json() and "Traceback" not in result.model_dump_json()
        )
        with pytest.raises(ErrorResponse, match="city"):
            await client.get_prompt(name="brief", arguments={})
    assert ran == ["launch"]
