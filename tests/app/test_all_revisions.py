"""What an app does for its author by itself, for clients of each revision: arguments, results, rates."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from support.endpoints import ALL_REVISIONS, INTERNAL_ERROR, Rev, among, clause, since

from mcp_generated import App
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.aio.rates import RateLimit
from mcp_runtime.errors import RemoteJSONRPCError


class Sum(BaseModel):
    total: int


def client(rev: Rev, app: Any) -> Any:
    """A client of this revision, of an app that serves all of them."""
    return rev.package.Client.memory(*server_candidates(app.server, "all"))


@clause("2024-11-05/tools/07", "2025-03-26/tools/08", "draft/tools/12")
@among(ALL_REVISIONS)
async def test_arguments_that_do_not_fit_never_reach_the_function(rev: Rev) -> None:
    app, reached = App("strict"), list[Any]()

    @app.tool()
    def add(numbers: list[int], name: str = "x") -> str:
        reached.append(numbers)
        return str(sum(numbers))

    wrong: list[dict[str, Any]] = [{}, {"numbers": "1"}, {"numbers": [1, "2"]}, {"numbers": [1], "name": 5}]
    async with client(rev, app) as asking:
        for arguments in wrong:
            answer = await asking.call_tool(name="add", arguments=arguments)
            assert answer.is_error is True, arguments
        assert reached == []
        assert (await asking.call_tool(name="add", arguments={"numbers": [1, 2]})).content[0].text == "3"
    assert reached == [[1, 2]]


@clause("2024-11-05/tools/09", "2025-03-26/tools/10", "draft/tools/14")
@among(ALL_REVISIONS)
async def test_tools_of_an_app_can_be_called_as_often_as_it_says(rev: Rev) -> None:
    app, called = App("slow", rate_limits={"call_tool": RateLimit(per_second=0.001, burst=2)}), list[str]()

    @app.tool()
    def note(text: str) -> str:
        called.append(text)
        return text

    async with client(rev, app) as asking:
        for text in ("a", "b"):
            await asking.call_tool(name="note", arguments={"text": text})
        with pytest.raises(RemoteJSONRPCError, match="too many 'tools/call' requests"):
            await asking.call_tool(name="note", arguments={"text": "c"})
    assert called == ["a", "b"]


@clause("2024-11-05/tools/13", "2025-03-26/tools/14", "draft/tools/18")
@among(ALL_REVISIONS)
async def test_what_a_function_breaks_on_is_not_told_to_the_client(rev: Rev) -> None:
    app = App("broken")

    @app.tool()
    def fail() -> str:
        raise OSError("a secret of the server")

    @app.resource("test://x")
    def unreadable() -> str:
        raise OSError("a secret of the server")

    async with client(rev, app) as asking:
        answer = await asking.call_tool(name="fail")
        assert answer.is_error is True and "secret" not in str(answer)
        with pytest.raises(RemoteJSONRPCError) as caught:
            await asking.read_resource(uri="test://x")
        assert caught.value.code == INTERNAL_ERROR and "secret" not in str(caught.value)


@clause("draft/tools/09", "draft/tools/10")
@among(since("2025-06-18"))
async def test_structured_content_is_what_the_output_schema_says(rev: Rev) -> None:
    app = App("typed")

    @app.tool()
    def add(a: int, b: int) -> Sum:
        return Sum(total=a + b)

    async with client(rev, app) as asking:
        [listed] = [tool async for tool in asking.iter_tools()]
        answer = await asking.call_tool(name="add", arguments={"a": 1, "b": 2})
    assert listed.model_dump()["outputSchema"]["properties"]["total"]["type"] == "integer"
    assert answer.model_dump()["structuredContent"] == {"total": 3}
    assert answer.content[0].text == '{\n  "total": 3\n}'
