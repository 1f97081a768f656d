"""Several completion functions: the first that has suggestions answers, and those after it are not called."""

from __future__ import annotations

from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App
from mcp_generated.v2026_07_28 import types as t


def app_of(answers: list[list[str] | None], calls: list[int], mounted: int = 0) -> App:
    """An app with a completion function for each answer; the last `mounted` of them are of a mounted app."""
    app, inner = App("outer"), App("inner")

    @app.prompt
    def greet(who: str) -> str:
        return who

    for number, answer in enumerate(answers):
        target = inner if number >= len(answers) - mounted else app

        def suggest(ref: Any, argument: Any, number: int = number, answer: Any = answer) -> Any:
            calls.append(number)
            return answer

        target.completion(lambda ref, argument, context, suggest=suggest: suggest(ref, argument))
    if mounted:
        app.mount(inner)
    return app


@pytest.mark.parametrize("mounted", [0, 1])
@pytest.mark.parametrize(
    ("answers", "values", "called"),
    [
        ([["a"], ["b"]], ["a"], [0]),
        ([None, ["b"]], ["b"], [0, 1]),
        ([["a"], None], ["a"], [0]),
        ([[], ["b"]], [], [0]),  # No suggestions are an answer; None is not.
        ([None, None], [], [0, 1]),
        ([None, None, ["c"]], ["c"], [0, 1, 2]),
        ([None, ["b"], ["c"]], ["b"], [0, 1]),
    ],
)
async def test_the_first_function_that_has_an_answer_decides(
    answers: list[list[str] | None], values: list[str], called: list[int], mounted: int
) -> None:
    calls: list[int] = []
    async with connect(app_of(answers, calls, mounted)) as client:
        ref: Any = t.PromptReference(name="greet")
        result = await client.complete(ref=ref, argument=t.CompletionArgument(name="who", value=""))
    assert (result.completion.values, calls) == (values, called)
