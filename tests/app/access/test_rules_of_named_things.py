"""Every rule of access holds for every message that names a thing: the table of both is walked in all revisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from typing import Any, get_args, get_origin

import pytest
from support.auth.resource_server import PROTECTED, Authority, endpoint
from support.endpoints import ALL_REVISIONS, Rev, among, client_of

from mcp_generated import App, Context
from mcp_generated.middleware import AuthMiddleware, require_scopes
from mcp_products.app.components.named_things import ENDING, NamedThing, names_things, task_lists_of, things_named
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.protocol.revision import Notification, Request

# Properties of params that name nothing an access rule is about. A property of a new revision that stands in neither
# this set nor the table makes the test fail: somebody has to decide.
OF_NO_THING = frozenset(
    ("meta", "cursor", "arguments", "argument", "context", "input_responses", "request_state", "level", "task")
) | {"protocol_version", "capabilities", "client_info", "request_id", "reason", "progress_token", "progress", "total"}
OF_NO_THING |= {"message", "ttl", "poll_interval", "created_at", "last_updated_at", "status", "status_message"}
NAMING = {"name", "uri", "ref", "task_id", "notifications"}
EXTENSIONS = ("tasks", "skills")


def params_of(row: Any) -> list[Any]:
    """The types of the params of a message."""
    kind = row.params
    if kind is None:
        return []
    return list(get_args(kind)) if get_origin(kind) is not None else [kind]


def rows_of(rev: Rev) -> list[Any]:
    """All messages of clients in a revision, with those of extensions."""
    rows = [*rev.revision.rows]
    if rev.id == ALL_REVISIONS[-1].id:
        for name in EXTENSIONS:
            rows += import_module(f"mcp_generated.extensions.{name}").Server.revision.rows
    return [row for row in rows if isinstance(row, (Request, Notification)) and row.direction == "client_to_server"]


@among(ALL_REVISIONS)
def test_each_property_of_each_message_of_clients_is_in_the_table_or_names_nothing(rev: Rev) -> None:
    rows = rows_of(rev)
    assert len(rows) > 10
    for row in rows:
        for kind in params_of(row):
            fields = {*kind.__pydantic_fields__}
            assert fields <= OF_NO_THING | NAMING, f"{row.method}: what does {fields - OF_NO_THING - NAMING} name?"
            assert names_things(row.name, kind) == (bool(fields & NAMING) and row.name not in ENDING), row.method


def test_the_names_in_params_are_found() -> None:
    t = ALL_REVISIONS[2].t
    newest = ALL_REVISIONS[-1]
    assert things_named("call_tool", t.CallToolRequestParams(name="a")) == [NamedThing("tool", "a")]
    assert things_named("get_prompt", t.GetPromptRequestParams(name="a")) == [NamedThing("prompt", "a")]
    for name in ("read_resource", "subscribe"):
        params = {"read_resource": t.ReadResourceRequestParams, "subscribe": t.SubscribeRequestParams}[name](uri="a:b")
        assert things_named(name, params) == [NamedThing("resource", "a:b")]
    ending = t.UnsubscribeRequestParams(uri="a:b")
    assert things_named("unsubscribe", ending) == [], "what ends something gives nothing"
    argument = {"name": "x", "value": ""}
    for ref, thing in (
        ({"type": "ref/prompt", "name": "p"}, NamedThing("prompt", "p")),
        ({"type": "ref/resource", "uri": "a:{b}"}, NamedThing("template", "a:{b}")),
    ):
        params = t.CompleteRequestParams.model_validate({"ref": ref, "argument": argument})
        assert things_named("complete", params) == [thing]
    row = next(row for row in rows_of(newest) if row.name == "subscriptions_listen")
    fields = {"_meta": newest.meta(), "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}}
    listened = row.params.model_validate(fields)
    assert things_named(row.name, listened) == [NamedThing("resource", "a:b")]
    tasks = import_module("mcp_generated.extensions.tasks").Server.revision
    listed = task_lists_of(tasks)
    assert listed, "the tasks extension lists ids in a filter"
    fields["notifications"] = {name: ["t1"] for name in listed}
    assert things_named(row.name, row.params.model_validate(fields), listed) == [NamedThing("task", "t1")]


# ---- rules of an app ------------------------------------------------------------------------------------------------


def example(**settings: Any) -> App:
    """An app with one of each thing that is closed by rules, and one that is open."""
    app = App("app", **settings)

    @app.tool(tags={"closed"})
    def secret_tool() -> str:
        return "hidden text"

    @app.prompt(tags={"closed"})
    def secret_prompt(about: str) -> str:
        return "hidden text"

    @app.resource("notes://secret", tags={"closed"})
    def secret() -> str:
        return "hidden text"

    @app.resource("all://{name}/secret", tags={"closed"})
    def template(name: str) -> str:
        return "hidden text"

    @app.completion
    def complete(ref: Any, argument: Any, context: Any) -> list[str]:
        return ["hidden text"]

    @app.resource("notes://open")
    def shown() -> str:
        return "text"

    @app.tool
    async def close(ctx: Context) -> str:
        await ctx.disable_components(tags={"closed"})
        return "closed"

    return app


ARGUMENT = {"name": "about", "value": ""}
# The params of each message that names a thing of the example, by the name of its handler.
MESSAGES: dict[str, list[dict[str, Any]]] = {
    "call_tool": [{"name": "secret_tool", "arguments": {}}],
    "get_prompt": [{"name": "secret_prompt", "arguments": {"about": "x"}}],
    "read_resource": [{"uri": "notes://secret"}, {"uri": "all://a/secret"}],
    "subscribe": [{"uri": "notes://secret"}, {"uri": "all://a/secret"}],
    "complete": [
        {"ref": {"type": "ref/prompt", "name": "secret_prompt"}, "argument": ARGUMENT},
        {"ref": {"type": "ref/resource", "uri": "all://{name}/secret"}, "argument": {**ARGUMENT, "name": "name"}},
        {"ref": {"type": "ref/resource", "uri": "notes://secret"}, "argument": ARGUMENT},
    ],
    "subscriptions_listen": [
        {"notifications": {"resourceSubscriptions": ["notes://open", uri]}}
        for uri in ("notes://secret", "all://a/secret")
    ],
}
OF_TASKS = ("get_task", "get_task_payload", "cancel_task", "update_task")  # Their rule is their owner: see tests/tasks.


def messages(rev: Rev, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The method and the params of each message of a revision that names a thing."""
    for row in rev.revision.rows:
        if row.direction != "client_to_server" or not any(names_things(row.name, kind) for kind in params_of(row)):
            continue
        if row.name in OF_TASKS or isinstance(row, Notification):
            continue
        for params in MESSAGES[row.name]:
            yield row.method, prefixed(params, prefix)


def prefixed(params: Any, prefix: str) -> Any:
    """The params as a client has them of an app that is mounted."""
    if not prefix:
        return params
    text = json.dumps(params).replace('"secret_', f'"{prefix}_secret_').replace("://", f"://{prefix}/")
    return json.loads(text.replace(f"://{prefix}/open", f"://{prefix}/open"))


async def open_wire(rev: Rev, app: App) -> Any:
    """A raw client of an app in memory."""
    from support.endpoints import wire_to

    return wire_to(*[candidate.get() for candidate in server_candidates(app.server, "all")], opened=rev)


async def refusals(rev: Rev, app: App, prefix: str = "", before: str | None = None) -> None:
    """Assert that each message about what is closed is refused in a session."""
    async with await open_wire(rev, app) as wire:
        if before is not None:
            wire.send(rev.request("before", "tools/call", {"name": before, "arguments": {}}))
            while (answer := await wire.receive()).get("id") != "before":
                assert "list_changed" in answer["method"]
            assert "closed" in json.dumps(answer["result"])
        count = 0
        for number, (method, params) in enumerate(messages(rev, prefix)):
            wire.send(rev.request(number, method, params))
            answer = await wire.receive()
            assert answer.get("id") == number and "error" in answer, (method, params, answer)
            assert "hidden" not in json.dumps(answer)
            count += 1
        assert count >= 9


def disabled() -> App:
    return example().disable(tags={"closed"})


def inside(rule: Callable[[], App]) -> App:
    outer = App("outer")
    outer.mount(rule(), "sub")
    return outer


def around() -> App:
    return inside(example).disable(tags={"closed"})


@among(ALL_REVISIONS)
@pytest.mark.parametrize(
    ("make", "prefix", "before"),
    [
        (disabled, "", None),
        (lambda: inside(disabled), "sub", None),
        (around, "sub", None),
        (example, "", "close"),
        (lambda: App.proxy(example()).disable(names={"secret_tool", "secret_prompt", "secret", "template"}), "", None),
    ],
    ids=["app", "mounted app", "outer app", "session", "proxy"],
)
async def test_what_a_rule_disables_is_refused_in_each_message_that_names_it(
    rev: Rev, make: Callable[[], App], prefix: str, before: str | None
) -> None:
    await refusals(rev, make(), prefix, before)


@among(ALL_REVISIONS)
async def test_changes_of_what_is_disabled_later_are_not_sent(rev: Rev) -> None:
    app, seen = example(), list[str]()
    async with client_of(rev, app.server if rev.stateless else _services(app)) as client:
        async with client.listen(resource_updated=["notes://secret", "notes://open"]) as changes:
            app.disable(tags={"closed"})
            for uri in ("notes://secret", "notes://open"):
                await app.server.notify_resource_updated(uri=uri)
            async with asyncio.timeout(10):
                async for change in changes:
                    seen.append(change.params.uri)
                    break
    assert seen == ["notes://open"]


def _services(app: App) -> Any:
    from mcp_runtime.bindings.server import services_of
    from mcp_runtime.transports.memory import connect_in_memory

    return connect_in_memory(services_of([candidate.get() for candidate in server_candidates(app.server, "all")]))


# ---- rules of users -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


def checked() -> App:
    """An app whose middleware has a check that refuses what is closed; it knows tags, and of a proxy names."""

    def check(request: Any) -> bool:
        return "secret" not in request.name or "admin" in request.user.scopes

    return example(middleware=[AuthMiddleware(check)])


def scoped() -> App:
    return example(middleware=[AuthMiddleware(require_scopes("admin"))])


def in_front(make: Callable[[], App]) -> App:
    def check(request: Any) -> bool:
        return "secret" not in request.name or "admin" in request.user.scopes

    return App.proxy(make(), middleware=[AuthMiddleware(check)])


@among(PROTECTED)
@pytest.mark.parametrize(
    "make", [checked, scoped, lambda: in_front(example)], ids=["check", "scopes of a check", "proxy"]
)
async def test_what_a_user_may_not_use_is_refused_in_each_message_that_names_it(
    rev: Rev, issuer: Authority, make: Callable[[], App]
) -> None:
    def protection(url: str) -> ResourceServer:
        return ResourceServer(url, [issuer.name], scopes=(), scopes_supported=["admin"])

    async with endpoint(rev, protection, make(), real=False) as at:
        token, admin = issuer.token(at.url, scope="use"), issuer.token(at.url, scope="use admin")
        await at.open(token)
        for method, params in messages(rev):
            answer = await sent(at, token, method, params)
            assert answer.status_code == 403 or "error" in answer.text, (method, answer.text)
            assert "hidden" not in answer.text and "acknowledged" not in answer.text, (method, answer.text)
            if "notifications" not in params and "subscribe" not in method:
                assert "hidden text" in (await sent(at, admin, method, params)).text, method


def sent(at: Any, token: str, method: str, params: dict[str, Any]) -> Awaitable[Any]:
    named = params.get("name", params.get("uri"))
    headers = {"mcp-name": named} if at.rev.stateless and named is not None else {}
    answer: Awaitable[Any] = at.post(at.rev.request(1, method, params), token, **headers)
    return answer


@among(PROTECTED)
async def test_scopes_of_a_component_hold_for_each_message_that_names_it(rev: Rev, issuer: Authority) -> None:
    app = App("app")
    app.tool(lambda: "hidden text", name="secret_tool", description="x", scopes=["admin"])
    app.prompt(lambda about: "hidden text", name="secret_prompt", scopes=["admin"])
    app.resource("notes://secret", scopes=["admin"])(lambda: "hidden text")
    app.resource("all://{name}/secret", scopes=["admin"])(lambda name: "hidden text")
    app.completion(lambda ref, argument, context: ["hidden text"])

    def protection(url: str) -> ResourceServer:
        return ResourceServer(url, [issuer.name], scopes=(), scopes_supported=["admin"])

    async with endpoint(rev, protection, app, real=False) as at:
        token = issuer.token(at.url, scope="use")
        await at.open(token)
        for method, params in messages(rev):
            answer = await sent(at, token, method, params)
            assert answer.status_code == 403 and "hidden" not in answer.text, (method, answer.text)
