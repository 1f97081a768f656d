"""Each method of the context of an app, without capabilities by hand, for clients of each revision and transport."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import pytest
from conformance.wires import served
from support.endpoints import ALL_REVISIONS, Rev
from support.processes import end_with_session
from support.project import ROOT
from support.servers import context as server_module

from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

APP: Final = str(ROOT / "tests" / "support" / "servers" / "context.py")
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
MISSING_CAPABILITY: Final = -32021

CONTENTS: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "model": ({"name": "Ada", "guests": 3}, "Booking", "name='Ada' guests=3 vegetarian=False comment=None"),
    "dataclass": ({"street": "High"}, "Address", "Address(street='High', number=1)"),
    "typeddict": ({"red": 3}, "dict", "{'red': 3}"),
    "str": ({"value": "x"}, "str", "x"),
    "int": ({"value": 7}, "int", "7"),
    "float": ({"value": 0.5}, "float", "0.5"),
    "bool": ({"value": True}, "bool", "True"),
    "literal": ({"value": "s"}, "str", "s"),
    "enum": ({"value": "l"}, "Size", "Size.LARGE"),
    "list": ({"value": "l"}, "str", "l"),
    "titled": ({"value": "s"}, "str", "s"),
    "several": ({"value": ["s", "l"]}, "list", "['s', 'l']"),
    "literals": ({"value": ["s"]}, "list", "['s']"),
    "schema": ({"n": 4}, "dict", "{'n': 4}"),
}


@cache
def origin() -> str:
    """Return where a server of this process serves over HTTP."""
    process, url = served((APP, "http"), "context")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url


@dataclass
class Dialogue:
    """A client, the log messages that it received, and how it answers."""

    rev: Rev
    transport: str
    client: Any = None
    logs: list[Any] = field(default_factory=list[Any])
    requests: list[Any] = field(default_factory=list[Any])
    action: str = "accept"
    contents: list[Any] = field(default_factory=list[Any])
    texts: list[str] = field(default_factory=list[str])

    def reset(self) -> None:
        """Forget the messages and the answers of the last feature; the handlers hold these lists."""
        self.action = "accept"
        for items in (self.logs, self.requests, self.contents, self.texts):
            items.clear()

    @property
    def has_forms(self) -> bool:
        return self.rev.id >= "2025-06-18"

    async def result(self, name: str, options: RequestOptions | None = None, /, **arguments: Any) -> Any:
        return await self.client.call_tool(name=name, arguments=arguments, options=options)

    async def text(self, name: str, options: RequestOptions | None = None, /, **arguments: Any) -> str:
        result = await self.result(name, options, **arguments)
        [content] = result.content
        assert not result.is_error, content.text
        return str(content.text)

    async def json(self, name: str, options: RequestOptions | None = None, /, **arguments: Any) -> Any:
        return json.loads(await self.text(name, options, **arguments))

    def with_logs(self) -> RequestOptions | None:
        """Return options that let a stateless client receive all log messages."""
        return RequestOptions(meta={LOG_LEVEL: "debug"}) if self.rev.stateless else None


def client_class(dialogue: Dialogue, *, is_plain: bool = False) -> Any:
    """Return a class of clients of a revision; a plain one has no capabilities."""
    t: Any = dialogue.rev.t

    async def on_logging_message(ctx: Any, params: Any) -> None:
        dialogue.logs.append((params.level, params.data, params.logger))

    async def on_create_message(ctx: Any, params: Any) -> Any:
        dialogue.requests.append(params)
        text = dialogue.texts.pop(0) if dialogue.texts else "fine"
        return t.CreateMessageResult(role="assistant", content=t.TextContent(text=text), model="m")

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return t.ListRootsResult(roots=[t.Root(uri="file:///work", name="work")])

    async def on_elicit(ctx: Any, params: Any) -> Any:
        dialogue.requests.append(params)
        content = dialogue.contents.pop(0) if dialogue.contents and dialogue.action == "accept" else None
        return t.ElicitResult(action=dialogue.action, **({} if content is None else {"content": content}))

    handlers: dict[str, Any] = {"on_logging_message": on_logging_message}
    if not is_plain:
        handlers |= {"on_create_message": on_create_message, "on_list_roots": on_list_roots}
        if dialogue.has_forms:
            handlers["on_elicit"] = on_elicit
    members = {name: staticmethod(handler) for name, handler in handlers.items()}
    return type("Client", (dialogue.rev.package.Client,), members)


@asynccontextmanager
async def connected(transport: str, rev: Rev, *, is_plain: bool = False) -> AsyncGenerator[Dialogue]:
    """Connect a client over a transport."""
    dialogue = Dialogue(rev, transport)
    kind = client_class(dialogue, is_plain=is_plain)
    settings: dict[str, Any] = {}
    if not is_plain and rev.id >= "2025-11-25":
        settings["capabilities"] = {"elicitation": {"form": {}, "url": {}}}
    match transport:
        case "memory":
            client = kind.memory(*server_candidates(server_module.app.server, "all"), **settings)
        case "stdio":
            env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
            client = kind.stdio(sys.executable, APP, env=env, **settings)
        case _:
            url = origin() + ("/mcp" if rev.id >= "2025-03-26" else "/sse")
            from mcp_generated.http import HTTPOptions

            client = kind.http(url, http=HTTPOptions(headers={"X-Test": "yes"}), **settings)
    async with asyncio.timeout(60), client as dialogue.client:
        yield dialogue


async def received(condition: Callable[[], bool]) -> None:
    """Wait for a notification."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


# ---- the cells -------------------------------------------------------------------------------------------------------


async def log_messages_of_all_levels_arrive(dialogue: Dialogue) -> None:
    assert await dialogue.text("log_all", dialogue.with_logs()) == "logged"
    await received(lambda: len(dialogue.logs) == 6)
    assert dialogue.logs == [
        ("debug", "d", None),
        ("info", "i", "names"),
        ("warning", {"msg": "w", "extra": {"count": 1}}, None),
        ("error", "e", None),
        ("notice", {"text": "n"}, "names"),
        ("critical", "c", "names"),
    ]


async def progress_is_reported(dialogue: Dialogue) -> None:
    progress: list[Any] = []
    options = RequestOptions(on_progress=lambda value: progress.append((value.progress, value.total, value.message)))
    assert await dialogue.text("report", options) == "reported"
    texts = ["half", "done"] if dialogue.rev.id >= "2025-03-26" else [None, None]
    assert progress == [(1, 2, texts[0]), (2, 2, texts[1])]


async def a_function_uses_its_own_app(dialogue: Dialogue) -> None:
    assert await dialogue.json("own") == {
        "text": ["a note", "text/plain"],
        "bytes": True,
        "resources": ["note://text", "note://bytes"],
        "prompts": ["greet"],
        "prompt": "Greet Ada",
        "has_tool": True,
    }


async def forms_give_data_of_the_type(dialogue: Dialogue) -> None:
    for shape, (content, kind, data) in CONTENTS.items():
        dialogue.contents = [content]
        if dialogue.has_forms and (dialogue.rev.id >= "2025-11-25" or shape not in ("several", "literals")):
            assert await dialogue.json("fill_in", shape=shape) == {"action": "accept", "type": kind, "data": data}
        else:
            result = await dialogue.result("fill_in", shape=shape)
            assert result.is_error is True and dialogue.rev.id in result.content[0].text, shape


async def forms_can_be_refused(dialogue: Dialogue) -> None:
    for action in ("decline", "cancel"):
        dialogue.action = action
        if dialogue.has_forms:
            assert await dialogue.json("fill_in", shape="model") == {"action": action, "data": None}


async def what_runs_again_logs_and_stores_once(dialogue: Dialogue) -> None:
    if dialogue.has_forms:
        dialogue.contents = [{"value": "Ada"}, {"value": True}]
        assert await dialogue.text("two_forms", dialogue.with_logs()) == "Ada True 1"
        await received(lambda: len(dialogue.logs) >= 3)
        assert [data for _, data, _ in dialogue.logs] == ["first", "second", "third"]


async def urls_are_visited(dialogue: Dialogue) -> None:
    if dialogue.rev.id >= "2025-11-25":
        assert await dialogue.text("visit") == "accept"
        assert dialogue.requests[0].url == "https://example.com/pay"
    else:
        result = await dialogue.result("visit")
        assert result.is_error is True and dialogue.rev.id in result.content[0].text


async def models_write_text_and_values(dialogue: Dialogue) -> None:
    dialogue.texts = ["hello to you", "it is good", '```json\n{"good": true}\n```']
    assert await dialogue.json("write") == {"text": "hello to you", "model": "m", "good": True}
    plain, first, second = dialogue.requests
    assert (plain.system_prompt, plain.temperature, plain.max_tokens) == ("Be brief", 0.5, 512)
    assert [hint.name for hint in plain.model_preferences.hints] == ["m", "n"]
    assert plain.messages[0].content.text == "hello"
    assert '"good"' in first.system_prompt and first.max_tokens == 50
    assert [message.content.text for message in first.messages] == ["Is it", "good?"]
    assert [message.role for message in second.messages] == ["user", "user", "assistant", "user"]


async def the_session_is_that_of_the_official_sdk(dialogue: Dialogue) -> None:
    assert await dialogue.json("by_session") == {"text": "fine", "roots": ["work"]}
    dialogue.contents = [{"value": "x"}]
    if dialogue.has_forms:
        assert await dialogue.text("fill_in_by_session") == "accept {'value': 'x'}"


async def the_request_is_seen(dialogue: Dialogue) -> None:
    seen = await dialogue.json("who", RequestOptions(meta={"test": 1, "client_id": "me"}))
    if dialogue.transport == "http":
        path = "/mcp" if dialogue.rev.id >= "2025-03-26" else "/sse"
        method = "POST" if path == "/mcp" else "GET"
        assert seen["http"] == [method, path, "yes", path] and seen["client"] == "127.0.0.1"
    else:
        assert seen["http"] is None and seen["client"] is None
    assert seen["state"] == ["main", "main", "main"]
    assert seen["revision"] == dialogue.rev.id
    assert (seen["session_id"] is None) is (dialogue.transport == "http" and dialogue.rev.stateless)
    assert (seen["client_id"], seen["meta"]) == ("me", 1)
    assert seen["request_id"] is True and seen["app"] is True and seen["method"] == "tools/call"


async def state_lasts_for_a_session(dialogue: Dialogue) -> None:
    numbers = [int(await dialogue.text("count")) for _ in range(3)]
    has_session = not (dialogue.transport == "http" and dialogue.rev.stateless)
    assert numbers == ([1, 2, 3] if has_session else [1, 1, 1])
    assert await dialogue.text("forget") == "object"
    assert await dialogue.text("count") == "1"


async def changes_arrive(dialogue: Dialogue) -> None:
    t: Any = dialogue.rev.t
    lists = {t.ToolListChangedNotification, t.ResourceListChangedNotification, t.PromptListChangedNotification}
    async with dialogue.client.listen(
        tool_list_changed=True,
        resource_list_changed=True,
        prompt_list_changed=True,
        resource_updated=["note://text"],
    ) as stream:
        for action in ("resource", "session resource"):
            assert await dialogue.text("change", action=action) == action
            assert type(await anext(stream)) is t.ResourceUpdatedNotification
        for action in ("lists", "session lists"):
            assert await dialogue.text("change", action=action) == action
            assert {type(await anext(stream)) for _ in range(3)} == lists


FEATURES: Final = (
    log_messages_of_all_levels_arrive,
    progress_is_reported,
    a_function_uses_its_own_app,
    forms_give_data_of_the_type,
    forms_can_be_refused,
    what_runs_again_logs_and_stores_once,
    urls_are_visited,
    models_write_text_and_values,
    the_session_is_that_of_the_official_sdk,
    the_request_is_seen,
    state_lasts_for_a_session,
    changes_arrive,
)
CELLS = [
    pytest.param(transport, rev, id=f"{transport}-{rev}")
    for transport in ("memory", "stdio", "http")
    for rev in ALL_REVISIONS
]


@pytest.mark.deadline(120)
@pytest.mark.parametrize(("transport", "rev"), CELLS)
async def test_the_context_does_all_that_it_has(transport: str, rev: Rev) -> None:
    """One client uses all features of a cell: a process for each would take long."""
    async with connected(transport, rev) as dialogue:
        for feature in FEATURES:
            dialogue.reset()
            try:
                await feature(dialogue)
            except BaseException as error:
                error.add_note(f"feature: {feature.__name__}")
                raise


@pytest.mark.parametrize("rev", ALL_REVISIONS, ids=str)
async def test_what_the_client_cannot_do_is_a_clear_error(rev: Rev) -> None:
    async with connected("memory", rev, is_plain=True) as dialogue:
        for name, arguments in (("fill_in", {"shape": "model"}), ("visit", {}), ("write", {}), ("by_session", {})):
            if rev.stateless:
                with pytest.raises(RemoteJSONRPCError) as caught:
                    await dialogue.result(name, **arguments)
                assert caught.value.code == MISSING_CAPABILITY
            else:
                result = await dialogue.result(name, **arguments)
                assert result.is_error is True and "the client cannot do this" in result.content[0].text
        assert await dialogue.text("without_forms") == "no forms"
