"""Type checkers know the types of a context, in the orders of type parameters of both versions of the official SDK."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.checkers import mypy, pyright

SNIPPET = """
from dataclasses import dataclass

from mcp_generated import AcceptedElicitation, Context, ServerSession


@dataclass
class State:
    name: str


class Request:
    pass


async def one(ctx: Context[State]) -> str:
    return ctx.state.name


async def two(ctx: Context[ServerSession, State]) -> str:
    return ctx.lifespan_context.name + ctx.request_context.lifespan_context.name


async def of_version_two(ctx: Context[State, Request]) -> str:
    return ctx.state.name + ctx.request_context.lifespan_context.name


async def three(ctx: Context[ServerSession, State, Request]) -> str:
    assert ctx.state.name
    result = await ctx.elicit("Who?", State)
    match result:
        case AcceptedElicitation(data=data):
            return data.name
        case _:
            return result.action


async def four(ctx: Context) -> bool:
    value = await ctx.sample("Good?", result_type=bool, temperature=0.5, timeout=5)
    return value.result


async def five(ctx: Context) -> str:
    await ctx.info("text", logger_name="names")
    return (await ctx.sample("hello")).result
"""
MISTAKES = {
    "an attribute that the state does not have": ("    return ctx.state.name\n", "    return ctx.state.nmae\n"),
    "an attribute of the second parameter": ("ctx.lifespan_context.name +", "ctx.lifespan_context.nmae +"),
    "an attribute of the state of 2.x": ("ctx.state.name +", "ctx.state.nmae +"),
    "an attribute of the state before a request": ("assert ctx.state.name", "assert ctx.state.nmae"),
    "an attribute of the request's state of 2.x": (
        "    return ctx.state.name + ctx.request_context.lifespan_context.name",
        "    return ctx.state.name + ctx.request_context.lifespan_context.nmae",
    ),
    "an attribute of the data": ("return data.name", "return data.nmae"),
    "a wrong keyword of sample": ("temperature=0.5", "temperatur=0.5"),
    "a wrong type of the result": ("result_type=bool", "result_type=int"),
}


@pytest.mark.edges("mypy")
@pytest.mark.long
@pytest.mark.parametrize("check", [mypy, pyright], ids=["mypy", "pyright"])
def test_checkers_know_the_types(check: Callable[..., list[str]], tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(SNIPPET)
    for number, (old, new) in enumerate(MISTAKES.values()):
        assert SNIPPET.count(old) == 1, old
        (tmp_path / f"wrong_{number}.py").write_text(SNIPPET.replace(old, new))
    findings = check(tmp_path, ".")
    assert [line for line in findings if line.startswith("right.py")] == []
    for number, mistake in enumerate(MISTAKES):
        assert [line for line in findings if line.startswith(f"wrong_{number}.py:")] != [], mistake
