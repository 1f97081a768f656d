"""How what the user has typed could go on: at most 100 suggestions, declared since the second revision."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Rev,
    among,
    before,
    clause,
    client_of,
    server_of,
    since,
    wire_to,
)

from mcp_products.app.components import completion as ranking
from mcp_runtime.errors import ProtocolViolationError, RemoteJSONRPCError

REF = {"type": "ref/prompt", "name": "greet"}
ARGUMENT = {"name": "who", "value": "w"}


def completing(rev: Rev, **completion: Any) -> Any:
    async def complete(ctx: Any, params: Any) -> Any:
        return rev.t.CompleteResult(completion=rev.t.Completion(**completion))

    return server_of(rev, complete=complete)


async def complete_argument(rev: Rev, client: Any) -> Any:
    ref = rev.t.PromptReference(name="greet")
    result = await client.complete(ref=ref, argument=rev.t.CompletionArgument(name="who", value="w"))
    return result.completion


@among(ALL_REVISIONS)
async def test_a_hundred_suggestions_arrive_with_how_many_there_are(rev: Rev) -> None:
    values = [f"w{number}" for number in range(100)]
    async with client_of(rev, completing(rev, values=values, total=250, has_more=True)) as client:
        completion = await complete_argument(rev, client)
    assert (completion.values, completion.total, completion.has_more) == (values, 250, True)


@clause("2024-11-05/completion/07", "2025-03-26/completion/12", "draft/completion/12")
@among(ALL_REVISIONS)
async def test_a_client_copes_with_no_suggestions_and_no_totals(rev: Rev) -> None:
    async with client_of(rev, completing(rev, values=[])) as client:
        completion = await complete_argument(rev, client)
    assert (completion.values, completion.total, completion.has_more) == ([], None, None)


@among(ALL_REVISIONS)
async def test_what_is_completed_arrives_as_it_was_asked(rev: Rev) -> None:
    requests: list[Any] = []

    async def complete(ctx: Any, params: Any) -> Any:
        requests.append(params)
        return rev.t.CompleteResult(completion=rev.t.Completion(values=[]))

    kind = getattr(rev.t, "ResourceTemplateReference", None) or rev.t.ResourceReference
    async with client_of(rev, server_of(rev, complete=complete)) as client:
        argument = rev.t.CompletionArgument(name="path", value="é")
        await client.complete(ref=kind(uri="test://{path}"), argument=argument)
        await complete_argument(rev, client)
    assert [(type(params.ref), params.argument.value) for params in requests] == [
        (kind, "é"),
        (rev.t.PromptReference, "w"),
    ]


@among(since("2025-06-18"))
async def test_other_arguments_are_sent_as_context(rev: Rev) -> None:
    seen: list[Any] = []

    async def complete(ctx: Any, params: Any) -> Any:
        seen.append(params.context.arguments)
        return rev.t.CompleteResult(completion=rev.t.Completion(values=[]))

    async with client_of(rev, server_of(rev, complete=complete)) as client:
        await client.complete(
            ref=rev.t.PromptReference(name="greet"),
            argument=rev.t.CompletionArgument(name="who", value="w"),
            context=rev.t.CompletionContext(arguments={"greeting": "hello"}),
        )
    assert seen == [{"greeting": "hello"}]


@among(before("2025-06-18"))
async def test_the_first_revisions_have_no_context(rev: Rev) -> None:
    assert not hasattr(rev.t, "CompletionContext")
    assert "context" not in rev.t.CompleteRequestParams.model_fields


@clause("2025-03-26/completion/04", "draft/completion/04")
@among(ALL_REVISIONS)
async def test_a_request_that_does_not_say_what_to_complete_is_refused(rev: Rev) -> None:
    wrong: list[dict[str, Any]] = [
        {"ref": REF},
        {"argument": ARGUMENT},
        {"ref": {"type": "ref/other", "name": "x"}, "argument": ARGUMENT},
        {"ref": REF, "argument": {"name": "who"}},
        {"ref": REF, "argument": {"name": "who", "value": 5}},
    ]
    async with wire_to(completing(rev, values=[]), opened=rev) as wire:
        for id, params in enumerate(wrong):
            answer = await wire.request(rev.request(id, "completion/complete", params))
            assert answer["error"]["code"] == INVALID_PARAMS


@clause("2025-03-26/completion/05", "draft/completion/05")
@among(ALL_REVISIONS)
async def test_a_handler_that_fails_is_an_internal_error(rev: Rev) -> None:
    async def complete(ctx: Any, params: Any) -> Any:
        raise KeyError("a secret")

    async with client_of(rev, server_of(rev, complete=complete)) as client:
        with pytest.raises(RemoteJSONRPCError) as caught:
            await complete_argument(rev, client)
    assert (caught.value.code, caught.value.message) == (INTERNAL_ERROR, "internal error")


@clause("2025-03-26/completion/01", "draft/completion/01", "2025-03-26/completion/02", "draft/completion/02")
@among(since("2025-03-26"))
async def test_without_the_capability_there_is_no_completion(rev: Rev) -> None:
    async with client_of(rev, completing(rev, values=[])) as client:
        assert client.server.capabilities.completions == {}
    async with client_of(rev, server_of(rev)) as client:
        assert client.server.capabilities.completions is None
        with pytest.raises(ProtocolViolationError, match="needs the capability 'server.completions'"):
            await complete_argument(rev, client)
    async with wire_to(server_of(rev), opened=rev) as wire:
        answer = await wire.request(rev.request(1, "completion/complete", {"ref": REF, "argument": ARGUMENT}))
        assert answer["error"]["code"] == METHOD_NOT_FOUND


@among(before("2025-03-26"))
async def test_the_first_revision_needs_no_capability(rev: Rev) -> None:
    assert "completions" not in rev.t.ServerCapabilities.model_fields
    async with client_of(rev, completing(rev, values=["world"])) as client:
        assert (await complete_argument(rev, client)).values == ["world"]


def test_a_long_typed_text_is_compared_with_nothing_that_cannot_be_similar(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    class Counted(SequenceMatcher[str]):
        def __init__(self, isjunk: Any, a: str, b: str) -> None:
            compared.append(len(a))
            super().__init__(isjunk, a, b)

    monkeypatch.setattr(ranking, "SequenceMatcher", Counted)
    values = ["london", "londres", "paris"]
    assert ranking.rank_completions(values, "londn") == ["london", "londres"]
    assert compared
    compared.clear()
    assert ranking.rank_completions(values, "london" * 100_000) == [] and compared == []
    for typed in ("londonlond", "londresse", "l", "", "xyz"):  # What may be similar is found as by comparing all.
        ratios = {value: SequenceMatcher(None, typed, value[: len(typed) + 1]).ratio() for value in values}
        found = ranking.rank_completions(values, typed)
        assert {value for value, ratio in ratios.items() if ratio >= 0.6} <= set(found)
