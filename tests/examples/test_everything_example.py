"""The everything example, as a server over stdio: the errors and checks that the specification asks of a server."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, INVALID_PARAMS, Rev, among, clause, since
from support.installation.extras import optional
from support.project import ROOT

from mcp_runtime.errors import RemoteJSONRPCError

jsonschema = optional("jsonschema")
SERVER = str(ROOT / "examples" / "everything" / "server.py")
NOT_FOUND = -32002
WITH_STRUCTURE = [rev for rev in since("2025-06-18") if not rev.stateless]


# One process for each test and revision: those between the first and the last are long.
FAST: Any = [
    rev if rev in (HANDSHAKE[0], HANDSHAKE[-1]) else pytest.param(rev, marks=pytest.mark.long) for rev in HANDSHAKE
]


@asynccontextmanager
async def everything(rev: Rev, **handlers: Any) -> AsyncIterator[Any]:
    kind: Any = type(
        "Asking", (rev.package.Client,), {name: staticmethod(handler) for name, handler in handlers.items()}
    )
    async with kind.stdio(sys.executable, SERVER, "stdio") as client:
        yield client


async def code_of(call: Any) -> tuple[int, Any]:
    with pytest.raises(RemoteJSONRPCError) as caught:
        await call
    return caught.value.code, caught.value.data


@pytest.mark.long
@clause("2024-11-05/prompts/07", "2025-03-26/prompts/08", "draft/prompts/08")
@clause("2024-11-05/prompts/08", "2025-03-26/prompts/09", "draft/prompts/09")
@clause("2024-11-05/prompts/10", "2025-03-26/prompts/11", "draft/prompts/11")
@clause("2024-11-05/resources/05", "2025-03-26/resources/05", "draft/resources/06")
@clause("2024-11-05/completion/04", "2025-03-26/completion/09", "draft/completion/09")
@clause("2024-11-05/completion/08", "2025-03-26/completion/13", "draft/completion/13")
@clause("2025-03-26/completion/03", "draft/completion/03")
@among(FAST)
async def test_what_is_not_there_or_incomplete_has_its_error_code(rev: Rev) -> None:
    async with everything(rev) as client:
        assert (await code_of(client.get_prompt(name="nonsense")))[0] == INVALID_PARAMS
        assert (await code_of(client.get_prompt(name="describe")))[0] == INVALID_PARAMS
        assert (await code_of(client.get_prompt(name="translate", arguments={"text": "x"})))[0] == INVALID_PARAMS
        assert (await client.get_prompt(name="describe", arguments={"city": "Pau"})).messages
        for uri in ("demo://nothing", "note://unwritten", "demo://number/1000"):
            assert await code_of(client.read_resource(uri=uri)) == (NOT_FOUND, {"uri": uri})
        for prompt, argument in (("nonsense", "city"), ("describe", "nonsense")):
            ref, about = rev.t.PromptReference(name=prompt), rev.t.CompletionArgument(name=argument, value="")
            assert (await code_of(client.complete(ref=ref, argument=about)))[0] == INVALID_PARAMS


@pytest.mark.long
@clause("2024-11-05/tools/07", "2025-03-26/tools/08", "draft/tools/12")
@among(FAST)
async def test_arguments_that_do_not_fit_are_never_executed(rev: Rev) -> None:
    wrong: list[dict[str, Any]] = [{}, {"name": "A!", "text": "x"}, {"name": "a", "text": 5}, {"name": "a"}]
    async with everything(rev) as client:
        for arguments in wrong:
            try:
                assert (await client.call_tool(name="write_note", arguments=arguments)).is_error
            except RemoteJSONRPCError as error:
                assert error.code == INVALID_PARAMS
        listed = [resource.uri async for resource in client.iter_resources()]
        assert not [uri for uri in listed if uri.startswith("note:")]
        assert not (await client.call_tool(name="write_note", arguments={"name": "a", "text": "x"})).is_error


@pytest.mark.long
@clause("draft/tools/08")
@among(FAST)
async def test_a_server_whose_tools_embed_resources_declares_them(rev: Rev) -> None:
    async with everything(rev) as client:
        content = (await client.call_tool(name="embedded", arguments={"uri": "demo://text"})).content
        assert "resource" in [block.type for block in content]
        assert client.server.capabilities.resources is not None


@pytest.mark.long
@clause("draft/tools/09", "draft/tools/10")
@among(WITH_STRUCTURE)
async def test_structured_content_fits_its_schema_and_is_there_as_text_too(rev: Rev) -> None:
    async with everything(rev) as client:
        [tool] = [tool async for tool in client.iter_tools() if tool.name == "statistics"]
        for numbers in ([1], [1, 2.5, -3]):
            answer = await client.call_tool(name="statistics", arguments={"numbers": numbers})
            structured = answer.model_dump()["structuredContent"]
            assert json.loads(answer.content[0].text) == structured
            assert structured["count"] == len(numbers)
            jsonschema.validate(structured, tool.output_schema.model_dump())


@pytest.mark.long
@clause("2024-11-05/logging/06", "2025-03-26/logging/06", "draft/logging/06")
@among(FAST)
async def test_all_log_messages_of_a_server_name_the_same_logger(rev: Rev) -> None:
    names: list[str | None] = []

    async def on_logging_message(ctx: Any, params: Any) -> None:
        names.append(params.logger)

    async with everything(rev, on_logging_message=on_logging_message) as client:
        for level in ("info", "error"):
            await client.call_tool(name="log_something", arguments={"level": level, "text": "x"})
    assert names == ["everything", "everything"]


@pytest.mark.long
async def test_the_tasks_of_one_client_and_their_results_are_bounded() -> None:
    rev = Rev("2025-11-25")
    async with everything(rev) as client:

        async def start(seconds: float) -> str:
            arguments = {"seconds": seconds, "steps": 1}
            created = await client.call_tool_as_task("long_running", arguments, task=rev.t.TaskMetadata())
            return str(created.task.task_id)

        ended = await start(0)
        assert (await client.get_task_payload(task_id=ended)).to_dict()["content"]
        running = [await start(60) for _ in range(99)]
        newest = await start(60)  # The result of the one that has ended is dropped.
        assert (await code_of(client.get_task_payload(task_id=ended)))[0] == INVALID_PARAMS
        assert (await code_of(start(60)))[0] == -32603
        await client.cancel_task(task_id=running[0])
        await start(60)
        assert (await client.get_task(task_id=newest)).status == "working"
