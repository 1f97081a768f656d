"""Lists come in the same order each time, and a server that lists in another order hears of it in its log."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among, client_of, server_of

from mcp_generated import App, v2026_07_28

NAMES = ["zebra", "ant", "mule", "bee", "yak"]


def tools(rev: Rev, names: list[str]) -> list[Any]:
    return [rev.t.Tool.model_validate({"name": name, "inputSchema": {"type": "object"}}) for name in names]


@among(ALL_REVISIONS)
async def test_another_order_of_the_same_tools_is_a_warning_once(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    orders = [NAMES, NAMES, [*NAMES, "new"], [*NAMES, "new"], ["new", *NAMES], NAMES, NAMES[::-1]]
    served = iter(orders)

    async def list_tools(ctx: Any, params: Any) -> Any:
        return rev.t.ListToolsResult(tools=tools(rev, next(served)))

    with caplog.at_level(logging.WARNING, "mcp_runtime"):
        async with client_of(rev, server_of(rev, list_tools=list_tools)) as client:
            for number, order in enumerate(orders):
                assert [tool.name for tool in (await client.list_tools()).tools] == order
                warned = [message for message in caplog.messages if "came in another order" in message]
                assert len(warned) == (number >= 4)


async def test_an_app_lists_in_the_order_in_which_things_were_added_to_every_client_on_every_page() -> None:
    inner, app = App("inner"), App("app", page_size=2)
    for name in NAMES:
        for target in (inner, app):
            target.add_tool(lambda: "x", name)
            target.add_prompt(lambda: "x", name)
            target.add_resource(f"test://{name}", lambda: "x", name=name)
    app.mount(inner, "inner")
    expected = [*NAMES, *(f"inner_{name}" for name in NAMES)]
    for _ in range(2):
        async with v2026_07_28.Client.memory(app.server) as client:
            assert [tool.name async for tool in client.iter_tools()] == expected
            assert [prompt.name async for prompt in client.iter_prompts()] == expected
            listed = [resource.uri async for resource in client.iter_resources()]
            assert listed == [f"test://{path}" for path in [*NAMES, *(f"inner/{name}" for name in NAMES)]]
