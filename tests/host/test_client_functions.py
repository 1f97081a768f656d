"""`Client`: functions answer the server and hear from it, in each protocol version."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel
from support.endpoints import ALL_REVISIONS, Rev, Tap, among, since
from support.installation.extras import optional

from mcp_generated import (
    App,
    Client,
    ConnectionClosedError,
    Context,
    FileRoots,
    JSONRPCError,
    LocalError,
    Middleware,
    MultiClient,
    Progress,
    RequestTimeoutError,
    SyncClient,
    ToolResultError,
    connect,
)
from mcp_generated.v2025_06_18 import types as older
from mcp_generated.v2026_07_28 import types as newest
from mcp_products.versions.adapters import server_candidates

trio = optional("trio")

ELICITATION = since("2025-06-18")


class Trip(BaseModel):
    city: str
    days: int = 1


@dataclass
class TripFields:
    city: str
    days: int


class Place(Enum):
    OSLO = "Oslo"


@dataclass
class PlaceFields:
    city: Place


def asking_app() -> App:
    app = App("asking")

    @app.tool()
    async def book(ctx: Context) -> str:
        """Ask where to go."""
        answer = await ctx.elicit("Where?", Trip)
        data: Any = getattr(answer, "data", None)
        return f"{answer.action} {data.city if data else ''}".strip()

    @app.tool()
    async def joke(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Tell a joke.")).text or ""

    @app.tool()
    async def folders(ctx: Context) -> list[str]:
        """Ask for the roots."""
        return [str(root.uri) for root in (await ctx.list_roots()).roots]

    @app.tool()
    async def work(ctx: Context) -> int:
        """Log and report progress."""
        await ctx.debug("low")
        await ctx.info("high")
        await ctx.progress(1, 2, "half")
        await ctx.progress(2, 2, "all")
        return 3

    return app


def connected(rev: Rev, **settings: Any) -> Client:
    return Client(asking_app(), revisions=[rev.id], **settings)


async def text_of_call(client: Client, name: str) -> str:
    async with client:
        return (await client.call_tool(name)).text


ANSWERS: dict[str, tuple[Any, str]] = {
    "dict": ({"city": "Oslo"}, "accept Oslo"),
    "model": (Trip(city="Oslo"), "accept Oslo"),
    "dataclass": (TripFields("Oslo", 2), "accept Oslo"),
    "dict with an enumeration": ({"city": Place.OSLO}, "accept Oslo"),
    "dataclass with an enumeration": (PlaceFields(Place.OSLO), "accept Oslo"),
    "result of the newest": (newest.ElicitResult(action="accept", content={"city": "Oslo"}), "accept Oslo"),
    "result of an older one": (older.ElicitResult(action="accept", content={"city": "Oslo"}), "accept Oslo"),
    "result as a dict": ({"action": "accept", "content": {"city": "Oslo"}}, "accept Oslo"),
    "None": (None, "decline"),
    "False": (False, "decline"),
    "cancel": ("cancel", "cancel"),
    "decline": ({"action": "decline"}, "decline"),
}


@among(ELICITATION)
@pytest.mark.parametrize("kind", ANSWERS)
async def test_a_form_is_answered_with_what_is_natural(rev: Rev, kind: str) -> None:
    answer, expected = ANSWERS[kind]
    assert await text_of_call(connected(rev, elicitation=lambda: answer), "book") == expected


@among(ELICITATION)
async def test_a_function_gets_what_it_takes(rev: Rev) -> None:
    seen: list[Any] = []

    def with_one(request: Any) -> dict[str, str]:
        seen.append(request.message)
        return {"city": "Rome"}

    async def with_two(request: Any, ctx: Any) -> dict[str, str]:
        seen.append((request.message, ctx.revision.id))
        return {"city": "Rome"}

    class Asked:
        async def __call__(self, request: Any) -> dict[str, str]:
            seen.append(type(request).__name__)
            return {"city": "Rome"}

    for function in (with_one, with_two, Asked()):
        assert await text_of_call(connected(rev, elicitation=function), "book") == "accept Rome"
    assert seen == ["Where?", ("Where?", "2026-07-28"), "ElicitRequestFormParams"]


@among(ELICITATION)
async def test_an_answer_that_is_none_names_what_to_return(rev: Rev) -> None:
    errors: list[Exception] = []
    async with connected(rev, elicitation=lambda: 5, on_error=errors.append) as client:
        with pytest.raises((LocalError, ToolResultError)) as raised:
            await client.call_tool("book")
    assert "return a dict with the values of the form" in f"{raised.value}{errors}"


@among(ALL_REVISIONS)
@pytest.mark.parametrize(
    "answer",
    [
        "A joke.",
        {"type": "text", "text": "A joke."},
        {"content": "A joke.", "model": "m"},
        newest.TextContent(text="A joke."),
    ],
    ids=["text", "block", "message", "model of a block"],
)
async def test_a_message_is_sampled_by_what_is_natural(rev: Rev, answer: Any) -> None:
    assert await text_of_call(connected(rev, sampling=lambda request: answer), "joke") == "A joke."


@among(ALL_REVISIONS)
async def test_none_and_a_raised_refusal_refuse_to_sample(rev: Rev) -> None:
    def refuse(request: Any) -> str:
        raise JSONRPCError(-1, "no jokes today")

    for function, text in ((lambda: None, "refused"), (refuse, "no jokes today")):
        errors: list[Exception] = []
        async with connected(rev, sampling=function, on_error=errors.append) as client:
            with pytest.raises((JSONRPCError, ToolResultError)) as raised:
                await client.call_tool("joke")
            if rev.stateless:
                assert text in str(raised.value)


@among(ALL_REVISIONS)
@pytest.mark.parametrize("kind", ["paths", "uris", "function", "async", "dicts", "models", "file roots"])
async def test_roots_are_what_is_natural(rev: Rev, kind: str, tmp_path: Path) -> None:
    async def of_async() -> list[Path]:
        return [tmp_path]

    uri = tmp_path.as_uri()
    roots: Any = {
        "paths": [str(tmp_path)],
        "uris": [uri],
        "function": lambda: [tmp_path],
        "async": of_async,
        "dicts": [{"uri": uri}],
        "models": [newest.Root(uri=uri)],
        "file roots": FileRoots(tmp_path),
    }[kind]
    async with connected(rev, roots=roots) as client:
        assert (await client.call_tool("folders")).data in ([uri], None)
        assert uri in (await client.call_tool("folders")).text


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are text there")
@among(ALL_REVISIONS)
@pytest.mark.parametrize("kind", ["paths", "beside a URI", "function"])
async def test_a_folder_whose_name_is_no_utf_8_is_a_root(rev: Rev, kind: str, tmp_path: Path) -> None:
    """Its name for people had half of a surrogate pair, so that the whole list could not be sent."""
    folder = tmp_path / os.fsdecode(b"d\x80")
    folder.mkdir()
    other = "file:///srv"
    roots: Any = {"paths": [folder], "beside a URI": [folder, other], "function": lambda: [folder]}[kind]
    async with connected(rev, roots=roots) as client:
        assert f"{tmp_path.as_uri()}/d%80" in (await client.call_tool("folders")).text


@among(ALL_REVISIONS)
async def test_roots_are_set_while_the_client_is_connected(rev: Rev, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    async with connected(rev, roots=[first]) as client:
        assert first.as_uri() in (await client.call_tool("folders")).text
        client.set_roots(second)
        text = (await client.call_tool("folders")).text
        assert second.as_uri() in text and first.as_uri() not in text
    for settings in ({}, {"roots": lambda: [first]}):
        with pytest.raises(LocalError, match=r"set_roots.*pass roots=\[…\] to Client"):
            connected(rev, **settings).set_roots(second)


@among(ELICITATION)
@pytest.mark.parametrize("error", [ValueError("broken"), JSONRPCError(-1, "no")], ids=["broken", "refusal"])
async def test_a_function_that_raises_fails_the_call(rev: Rev, error: Exception) -> None:
    def fail(request: Any) -> Any:
        raise error

    errors: list[Exception] = []
    async with connected(rev, elicitation=fail, sampling=fail, on_error=errors.append) as client:
        for name in ("book", "joke"):
            with pytest.raises(type(error) if rev.stateless else ToolResultError) as raised:
                await client.call_tool(name)
            assert not rev.stateless or raised.value is error
        assert len(await client.list_tools()) == 4, "the connection goes on"
    assert errors == ([error, error] if isinstance(error, ValueError) and not rev.stateless else [])


def test_tasks_of_trio_share_a_client_from_its_first_call_on() -> None:
    client, values = Client(asking_app()), list[Any]()

    async def use() -> None:
        async with client:
            values.append((await client.call_tool("work")).data)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(use)

    trio.run(main)
    assert values == [3, 3, 3]


def test_a_program_of_trio_has_the_same_client() -> None:
    seen: list[Any] = []

    async def answer(request: Any) -> dict[str, str]:
        await trio.sleep(0)
        return {"city": "Oslo"}

    async def main() -> None:
        async with Client(asking_app(), elicitation=answer, on_log=seen.append, log_level="info") as client:
            assert (await client.call_tool("book")).data == "accept Oslo"
            assert (await client.call_tool("work")).data == 3
            assert [tool.name async for tool in client.iter_tools()] == [
                tool.name for tool in await client.list_tools()
            ]
            assert (await client.get_tool("book")).name == "book"
            with pytest.raises(TimeoutError):
                await client.call_tool("work", timeout=1e-9)

    trio.run(main)
    assert {message.data for message in seen} == {"high"}


@among(ALL_REVISIONS)
async def test_log_messages_arrive_from_a_level_on(rev: Rev) -> None:
    logged: list[Any] = []
    async with connected(
        rev, on_log=lambda message: logged.append((message.level, message.data)), log_level="info"
    ) as client:
        await client.call_tool("work")
        await client.set_log_level("debug")
        await client.call_tool("work")
        await client.ping()
    assert [level for level, _ in logged] == ["info", "debug", "info"]


@among(ALL_REVISIONS)
async def test_the_level_is_asked_for_as_the_version_has_it(rev: Rev) -> None:
    tap = Tap(asking_app().as_server()) if rev.stateless else None
    if tap is None:
        [candidate] = server_candidates(asking_app().as_server(), [rev.id])
        tap = Tap(candidate.get())
    async with Client(tap, revisions=[rev.id], log_level="error") as client:
        await client.call_tool("work")
        await client.set_log_level(None)
        await client.call_tool("work")
    levels = [
        message.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/logLevel")
        for message in tap.sent
        if message.get("method") in ("server/discover", "tools/call")
    ]
    if rev.stateless:
        assert levels == ["error", "error", None]
    else:
        assert tap.methods().count("logging/setLevel") == 1
        assert levels == [None, None]


@among(ALL_REVISIONS)
async def test_a_level_is_set_while_there_is_a_connection(rev: Rev) -> None:
    client = connected(rev)
    with pytest.raises(ConnectionClosedError, match="or log_level= of the client"):
        await client.set_log_level("info")
    async with client:
        await client.set_log_level("info")
    with pytest.raises(ConnectionClosedError, match="there is no connection"):
        await client.set_log_level("info")


@among(ALL_REVISIONS)
async def test_progress_arrives_by_one_function_or_that_of_the_call(rev: Rev) -> None:
    numbers: list[Any] = []
    reports: list[Any] = []

    async def of_three(progress: float, total: float | None, message: str | None) -> None:
        numbers.append((progress, total))

    def of_one(progress: Progress) -> None:
        reports.append(progress.progress)

    async with connected(rev, on_progress=of_three) as client:
        await client.call_tool("work")
        await client.call_tool("work", on_progress=of_one)
    assert numbers == [(1, 2), (2, 2)]
    assert reports == [1, 2]


@among(ALL_REVISIONS)
async def test_the_error_of_a_function_of_progress_is_told(rev: Rev) -> None:
    errors: list[Exception] = []

    async def fail_later(progress: Progress) -> None:
        raise ValueError("later")

    def fail(progress: Progress) -> None:
        raise ValueError("at once")

    async with connected(rev, on_progress=fail, on_error=errors.append) as client:
        assert (await client.call_tool("work", raise_on_error=False)).is_error is False
        await client.call_tool("work", on_progress=fail_later)
        with pytest.raises(LocalError, match="on_progress must be a function of a Progress"):
            await client.call_tool("work", on_progress=cast("Any", 5))
    assert [str(error) for error in errors] == ["at once", "at once", "later", "later"]


@among(ALL_REVISIONS)
async def test_a_client_that_is_closed_at_once_has_no_error_that_nobody_reads(rev: Rev) -> None:
    unread: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unread.append(context))
    async with Client(asking_app(), revisions=rev.id, on_change=print):
        pass
    gc.collect()
    assert unread == []


@among(ALL_REVISIONS)
async def test_changes_of_lists_and_all_messages_arrive(rev: Rev) -> None:
    app = asking_app()
    changed = asyncio.Event()
    changes: list[Any] = []
    messages: list[Any] = []

    async def on_change(change: Any) -> None:
        changes.append(type(change).__name__)
        changed.set()

    async with Client(
        app, revisions=[rev.id], on_change=on_change, on_message=messages.append, log_level="info"
    ) as client:
        await client.call_tool("work")

        @app.tool()
        def another() -> None:
            """Do nothing."""

        await asyncio.wait_for(changed.wait(), 10)
    assert changes == ["ToolListChangedNotification"]
    names = [type(message).__name__ for message in messages]
    assert {"LoggingMessageNotification", "ToolListChangedNotification"} <= {*names}


@among(ALL_REVISIONS)
async def test_only_functions_declare_capabilities(rev: Rev) -> None:
    async with connected(rev) as client:
        assert client.generated.capabilities == {}
    async with connected(rev, elicitation=lambda: None, sampling=lambda: None, roots=["."]) as client:
        assert {"elicitation", "sampling", "roots"} == client.generated.capabilities.keys()


async def test_a_request_is_sent_again_a_limited_number_of_times() -> None:
    app = App("greedy")

    @app.tool()
    async def greedy(ctx: Context) -> str:
        """Ask twice."""
        await ctx.elicit("First?", Trip)
        await ctx.elicit("Second?", Trip)
        return "done"

    async with Client(app, elicitation=lambda: {"city": "Oslo"}) as client:
        assert (await client.call_tool("greedy")).text == "done"
    async with Client(app, elicitation=lambda: {"city": "Oslo"}, max_rounds=1) as client:
        with pytest.raises(Exception, match="requires input again after max_rounds=1 rounds"):
            await client.call_tool("greedy")


@among(ALL_REVISIONS)
async def test_a_timeout_is_a_timeout_error(rev: Rev) -> None:
    app = App("slow")

    @app.tool()
    async def wait() -> None:
        """Wait."""
        await asyncio.sleep(30)

    async with Client(app, revisions=rev.id, timeout=0.05) as client:
        with pytest.raises(TimeoutError) as raised:
            await client.call_tool("wait")
    assert isinstance(raised.value, RequestTimeoutError)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"auth": 5}, "auth must be a bearer token"),
        ({"auth": "Bearer secret"}, 'auth must be a bearer token without "Bearer"'),
        ({"auth": "secret\n"}, 'auth must be a bearer token without "Bearer" and spaces'),
        ({"auth": "OAuth"}, 'auth must be a bearer token without "Bearer" and spaces, "oauth"'),
        ({"roots": "/srv"}, "roots must be a list of paths"),
        ({"roots": [5]}, "roots must be a list of paths"),
        ({"roots": iter(["/srv"])}, "roots must be a list of paths"),  # Can be read only once.
        ({"roots": ["file:///srv/\udc80"]}, "roots must be a list of paths"),  # Half of a surrogate pair.
        ({"roots": ["/srv/\ud800"]}, "roots must be a list of paths"),
        ({"roots": ["/srv/\0"]}, "roots must be a list of paths"),
        ({"roots": ["/srv", "file:///srv/%2e%2e/x"]}, "roots must be a list of paths"),
        ({"roots": ["file://host/srv"]}, "roots must be a list of paths"),
        ({"http": {"headers": {}}}, "http must be HTTPOptions"),
        ({"log_level": "loud"}, "log_level must be one of 'debug'"),
        ({"timeout": "5"}, "timeout must be a number of seconds above 0"),
        ({"elicitation": {}}, "elicitation must be a function"),
        ({"elicitation": lambda message, kind, params, ctx: None}, "a function of the request and the context, or of"),
        ({"sampling": lambda *, request: None}, "a function of the request and the context, or of fewer"),
        ({"roots": lambda ctx, params, others: []}, "roots must be a list of paths"),
        ({"on_log": lambda a, b, c: None}, "a function of the log message and the context, or of fewer"),
        (
            {"on_progress": lambda a, b, c, d: None},
            "a function of a Progress, or of the number, the total and the text",
        ),
        ({"on_change": lambda a, b: None}, "a function of the change"),
        ({"on_message": lambda a, b: None}, "a function of the notification, or the error"),
        ({"on_error": lambda a, b: None}, "a function of the error"),
        ({"revisions": "2020-01-01"}, "revisions must be"),
        ({"max_rounds": 0}, "max_rounds must be"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_written(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalError, match=text):
        Client(App("x"), **settings)


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        ("elicitation_handler", "'elicitation'"),
        ("elicitation_callback", "'elicitation'"),
        ("on_elicit", "'elicitation'"),
        ("sampling_handler", "'sampling'"),
        ("sampling_callback", "'sampling'"),
        ("on_create_message", "'sampling'"),
        ("list_roots_callback", "'roots'"),
        ("log_handler", "'on_log'"),
        ("logging_callback", "'on_log'"),
        ("progress_handler", "'on_progress'"),
        ("message_handler", "'on_message'"),
        ("read_timeout_seconds", "'timeout'"),
        ("init_timeout", "'connect_timeout'"),
        ("mode", 'revisions="handshake"'),
        ("client_info", "use name=… and version=…"),
        ("headers", "HTTPOptions"),
        ("token", "'auth'"),
        ("verify", "HTTPOptions"),
        ("transport", "pass the target first"),
        ("elicitaton", "did you mean 'elicitation'"),
    ],
)
def test_the_keyword_of_another_library_names_the_line_to_write(keyword: str, text: str) -> None:
    settings: dict[str, Any] = {keyword: None}
    with pytest.raises(TypeError, match=keyword) as raised:
        Client(App("x"), **settings)
    assert text in str(raised.value)


async def test_a_list_that_is_late_is_left_out_with_the_error_of_its_request() -> None:
    app = App("slow")

    @app.tool()
    def one() -> None:
        """Do nothing."""

    class Late(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            await asyncio.sleep(30)

    app.add_middleware(Late())
    async with MultiClient({"slow": app}, timeout=0.05) as servers:
        assert await servers.list_tools() == []
    assert "'tools/list': no response within 0.05 s" in str(servers.errors["slow"])


async def test_connect_is_the_client_with_all_keywords() -> None:
    keywords = [*inspect.signature(Client).parameters]
    assert [*inspect.signature(connect).parameters] == [*keywords, "client"]
    app, told = App("notes"), list[Any]()

    @app.tool()
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Which?", str)).data

    async with connect(app, elicitation=lambda request: {"value": "this"}, timeout=5, name="mine") as client:
        assert type(client) is Client
        assert (await client.call_tool("ask")).data == "this"
    with pytest.raises(TypeError, match="has no keyword argument 'on_elicit'; use 'elicitation'"):
        connect(app, on_elicit=told.append)  # type: ignore[call-overload]  # pyright: ignore


def notes() -> App:
    app = App("notes")

    @app.resource("note://today")
    def today() -> str:
        return "Buy milk."

    @app.tool()
    async def write(ctx: Context) -> None:
        await ctx.notify_resource_updated("note://today")

    @app.tool()
    async def more() -> None:
        app.add_tool(lambda: 1, "another")

    return app


@among(ALL_REVISIONS)
async def test_on_change_gets_the_resources_that_it_names(rev: Rev) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    def changed(change: Any) -> None:
        told.put_nowait(getattr(change.params, "uri", "a list"))

    client = Client(notes(), on_change=changed, resource_updated=["note://today"], revisions=rev.id)
    async with client, asyncio.timeout(5):
        assert client.protocol_version == rev.id
        await client.call_tool("write")
        assert await told.get() == "note://today"
        await client.call_tool("more")
        assert await told.get() == "a list"
    with pytest.raises(LocalError, match="resource_updated=.* needs on_change="):
        Client(notes(), resource_updated=["note://today"])
    with pytest.raises(LocalError, match="resource_updated must be a list of URIs"):
        Client(notes(), on_change=changed, resource_updated="note://today")


@among(ALL_REVISIONS)
async def test_changes_are_listened_to_for_as_long_as_they_are_wanted(rev: Rev) -> None:
    async with Client(notes(), revisions=rev.id) as client, asyncio.timeout(5):
        async with client.listen(resource_updated=["note://today"]) as changes:
            await client.call_tool("write")
            async for change in changes:
                assert change.params.uri == "note://today"
                break
    with SyncClient(notes(), revisions=rev.id) as blocking, blocking.listen() as changes_there:
        assert blocking.protocol_version == rev.id
        blocking.call_tool("more")
        assert next(iter(changes_there)).method.endswith("list_changed")
