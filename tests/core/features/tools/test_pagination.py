"""Long lists: page after page by cursors that the client never looks into."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    INVALID_PARAMS,
    Rev,
    Tap,
    among,
    clause,
    client_of,
    server_of,
    since,
    wire_to,
)

from mcp_generated import RequestOptions
from mcp_runtime.errors import JSONRPCError, RemoteError, RemoteJSONRPCError
from mcp_runtime.protocol.result_types import FollowedPages
from mcp_runtime.server.lists import paginate

# Of one revision: the handler, the iterator, the result type, its list, and how an item is made.
Kind = tuple[str, str, str, str, Any]

# Cursors that would break a client which looks into them, trims them or takes them for nothing.
CURSORS = ["", " ", "0", "null", "a b\n", "é\u2028", '{"x":1}', "=" * 2000]


def tool(rev: Rev, name: str) -> Any:
    return rev.t.Tool(name=name, input_schema=rev.t.ToolInputSchema())


def resource(rev: Rev, name: str) -> Any:
    return rev.t.Resource(name=name, uri=f"test://{name}")


def template(rev: Rev, name: str) -> Any:
    return rev.t.ResourceTemplate(name=name, uri_template="test://{x}")


def prompt(rev: Rev, name: str) -> Any:
    return rev.t.Prompt(name=name)


KINDS: list[Kind] = [
    ("list_tools", "iter_tools", "ListToolsResult", "tools", tool),
    ("list_resources", "iter_resources", "ListResourcesResult", "resources", resource),
    (
        "list_resource_templates",
        "iter_resource_templates",
        "ListResourceTemplatesResult",
        "resource_templates",
        template,
    ),
    ("list_prompts", "iter_prompts", "ListPromptsResult", "prompts", prompt),
]
by_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind[3] for kind in KINDS])


def paged(rev: Rev, kind: Kind, pages: dict[str | None, tuple[list[str], str | None]]) -> Any:
    """A server with these pages: by cursor, the names on it and the next cursor."""
    handler, _, result, items, make = kind

    async def handle(ctx: Any, params: Any) -> Any:
        if params.cursor not in pages:
            raise JSONRPCError(INVALID_PARAMS, "no page is there")
        names, following = pages[params.cursor]
        fields = {items: [make(rev, name) for name in names], "next_cursor": following}
        return getattr(rev.t, result)(**fields)

    return server_of(rev, **{handler: handle})


@clause("2024-11-05/prompts/11", "2025-03-26/prompts/12", "draft/prompts/12")
@clause("2024-11-05/pagination/01", "2025-03-26/pagination/01", "draft/pagination/01")
@clause("2024-11-05/pagination/04", "2025-03-26/pagination/04", "draft/pagination/04")
@clause("2024-11-05/pagination/06", "2025-03-26/pagination/06", "draft/pagination/06")
@clause("2024-11-05/pagination/07", "2025-03-26/pagination/07", "draft/pagination/07")
@by_kind
@among(ALL_REVISIONS)
async def test_the_iterator_follows_every_cursor_as_it_came_over_pages_of_any_size(rev: Rev, kind: Kind) -> None:
    pages: dict[str | None, tuple[list[str], str | None]] = {}
    for number, (cursor, following) in enumerate(zip([None, *CURSORS], [*CURSORS, None], strict=True)):
        pages[cursor] = ([f"{number}.{item}" for item in range(number * 2 % 5)], following)
    tap = Tap(paged(rev, kind, pages))
    async with client_of(rev, tap) as client:
        names = [item.name async for item in getattr(client, kind[1])()]
    assert names == [name for names, _ in pages.values() for name in names]
    requests = [
        message["params"] for message in tap.sent if message.get("method", "").endswith("/list") and "params" in message
    ]
    assert [params["cursor"] for params in requests if "cursor" in params] == CURSORS


@clause("2024-11-05/pagination/05", "2025-03-26/pagination/05", "draft/pagination/05")
@by_kind
@among(ALL_REVISIONS)
async def test_a_list_without_pages_is_one_page(rev: Rev, kind: Kind) -> None:
    async with client_of(rev, paged(rev, kind, {None: (["one", "two"], None)})) as client:
        assert [item.name async for item in getattr(client, kind[1])()] == ["one", "two"]
        assert (await getattr(client, kind[0])()).next_cursor is None


@clause("2024-11-05/pagination/03", "2025-03-26/pagination/03", "draft/pagination/03")
@clause("2024-11-05/pagination/09", "2025-03-26/pagination/09", "draft/pagination/09")
@by_kind
@among(ALL_REVISIONS)
async def test_a_bad_cursor_is_refused_and_ends_nothing(rev: Rev, kind: Kind) -> None:
    items = [kind[4](rev, str(number)) for number in range(5)]

    async def handle(ctx: Any, params: Any) -> Any:
        page, following = paginate(items, params.cursor, 2)
        return getattr(rev.t, kind[2])(**{kind[3]: page, "next_cursor": following})

    async with client_of(rev, server_of(rev, **{kind[0]: handle})) as client:
        for cursor in [*CURSORS, "MTA=", "ZnJvbSA5OQ=="]:
            with pytest.raises(RemoteJSONRPCError) as caught:
                await getattr(client, kind[0])(cursor=cursor)
            assert caught.value.code == INVALID_PARAMS
        assert [item.name async for item in getattr(client, kind[1])()] == ["0", "1", "2", "3", "4"]


@clause("2024-11-05/pagination/09", "2025-03-26/pagination/09", "draft/pagination/09")
@among(ALL_REVISIONS)
async def test_a_cursor_that_is_no_string_is_refused(rev: Rev) -> None:
    async with wire_to(paged(rev, KINDS[0], {None: ([], None)}), opened=rev) as wire:
        for id, cursor in enumerate([5, True, {}, ["a"]]):
            answer = await wire.request(rev.request(id, "tools/list", {"cursor": cursor}))
            assert answer["error"]["code"] == INVALID_PARAMS


@clause("2024-11-05/pagination/02", "2025-03-26/pagination/02", "draft/pagination/02")
@among(ALL_REVISIONS)
async def test_a_cursor_stays_good_when_the_list_grows(rev: Rev) -> None:
    items = [tool(rev, str(number)) for number in range(4)]

    async def list_tools(ctx: Any, params: Any) -> Any:
        page, following = paginate(items, params.cursor, 2)
        return rev.t.ListToolsResult(tools=page, next_cursor=following)

    async with client_of(rev, server_of(rev, list_tools=list_tools)) as client:
        cursor = (await client.list_tools()).next_cursor
        items.append(tool(rev, "new"))
        for _ in range(2):
            assert [item.name for item in (await client.list_tools(cursor=cursor)).tools] == ["2", "3"]


@among(ALL_REVISIONS)
async def test_a_cursor_that_leads_to_itself_is_an_error_and_no_endless_loop(rev: Rev) -> None:
    async with client_of(rev, paged(rev, KINDS[0], {None: (["a"], "x"), "x": (["b"], "x")})) as client:
        with pytest.raises(RemoteError, match="repeats the cursor 'x'"):
            [item async for item in client.iter_tools()]


@by_kind
@among(ALL_REVISIONS)
async def test_cursors_that_lead_round_in_a_circle_are_an_error_that_names_one(rev: Rev, kind: Kind) -> None:
    circle = {None: (["a"], "A"), "A": (["b"], "B"), "B": (["c"], "C"), "C": (["d"], "A")}
    seen: list[str] = []
    async with client_of(rev, paged(rev, kind, circle)) as client:
        with pytest.raises(RemoteError, match="repeats the cursor 'A'"):
            async for item in getattr(client, kind[1])():
                seen.append(item.name)
    assert seen == ["a", "b", "c", "d"]


def endless(rev: Rev, kind: Kind, size: int = 1) -> Any:
    """A server whose every page has another cursor."""

    async def handle(ctx: Any, params: Any) -> Any:
        page = int(params.cursor or 0)
        items = [kind[4](rev, f"{page}.{number}") for number in range(size)]
        return getattr(rev.t, kind[2])(**{kind[3]: items, "next_cursor": str(page + 1)})

    return server_of(rev, **{kind[0]: handle})


@by_kind
@among(ALL_REVISIONS)
async def test_a_list_that_never_ends_is_an_error_with_the_name_of_the_limit(rev: Rev, kind: Kind) -> None:
    async with client_of(rev, endless(rev, kind, 10), cache=False) as client:
        seen = 0
        with pytest.raises(RemoteError, match="more than 7 pages; max_pages= and max_items= of the call"):
            async for _ in getattr(client, kind[1])(max_pages=7):
                seen += 1
        assert seen == 70
        with pytest.raises(RemoteError, match="more than 25 items"):
            [item async for item in getattr(client, kind[1])(options=RequestOptions(max_items=25))]


async def test_a_list_has_a_thousand_pages_unless_the_call_allows_more() -> None:
    rev = ALL_REVISIONS[-1]
    async with client_of(rev, endless(rev, KINDS[0]), cache=False) as client:
        with pytest.raises(RemoteError, match="more than 1,000 pages"):
            [item async for item in client.iter_tools()]


def test_a_long_cursor_is_neither_shown_nor_stored_as_a_whole() -> None:
    followed = FollowedPages("list")
    followed.add(1, "c" * 1_000_000)
    with pytest.raises(RemoteError) as caught:
        followed.add(1, "c" * 1_000_000)
    assert len(str(caught.value)) < 300


@among([rev for rev in since("2025-11-25") if not rev.stateless])
async def test_tasks_are_paged_too(rev: Rev) -> None:
    when = "2026-01-01T00:00:00Z"

    def task(id: str) -> Any:
        return rev.t.Task(task_id=id, status="working", created_at=when, last_updated_at=when, ttl=None)

    async def list_tasks(ctx: Any, params: Any) -> Any:
        return rev.t.ListTasksResult(tasks=[task(params.cursor or "a")], next_cursor=None if params.cursor else "b")

    async with client_of(rev, server_of(rev, list_tasks=list_tasks)) as client:
        assert [task.task_id async for task in client.iter_tasks()] == ["a", "b"]
