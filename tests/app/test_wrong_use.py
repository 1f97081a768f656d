"""Wrong use is refused where it is written, with a message that names the function or argument and the remedy.

The folder mistakes/ has the table: a mistake is a heading, the lines that a user writes, and the error that follows
`>>`, in which `…` stands for any text.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import inspect
import re
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import Field

import mcp_generated
from mcp_generated.http import HTTPLimits
from mcp_generated.v2026_07_28 import Client, Server, SyncClient

FOLDER = Path(__file__).parent / "mistakes"
MAX_CHARACTERS = 2 * 120  # Two lines of a terminal.


class Mistake(NamedTuple):
    """What a user writes, and the error that it gives."""

    name: str
    code: str
    error: str
    message: str


def mistakes() -> list[Mistake]:
    """Return the mistakes of all files."""
    blocks = [
        block
        for path in sorted(FOLDER.glob("*.txt"))
        for block in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    ]
    matches = [re.fullmatch(r"(.+?)\n(.+)\n>> (\w+): (.+)\n*", block, re.DOTALL) for block in blocks]
    assert all(matches), [block for block, match in zip(blocks, matches, strict=True) if match is None]
    return [Mistake(*match.groups()) for match in matches if match is not None]


IMPORTED = "App CacheHint Context File HTTPOptions Image RateLimit RequestOptions connect run tool".split()


def namespace(code: str) -> dict[str, Any]:
    """Return what the module of these lines has imported, and an app."""
    names: dict[str, Any] = {name: getattr(mcp_generated, name) for name in IMPORTED if name in code}
    names |= {"Client": Client, "Server": Server, "SyncClient": SyncClient, "HTTPLimits": HTTPLimits}
    names |= {"asyncio": asyncio, "contextlib": contextlib, "functools": functools, "threading": threading}
    names |= {"Annotated": Annotated, "Callable": Callable, "Field": Field, "Literal": Literal, "Path": Path}
    return {**names, "app": mcp_generated.App("shop"), "__name__": "users_module"}


def execute(code: str, names: dict[str, Any]) -> None:
    """Run the lines of a user; `await` is allowed outside of functions."""
    compiled: CodeType = compile(code, "<user>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


MISTAKES = mistakes()


def test_the_table_has_many_mistakes_and_none_twice() -> None:
    assert len(MISTAKES) >= 100
    assert len({mistake.code for mistake in MISTAKES}) == len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_refused_where_it_is_written(mistake: Mistake) -> None:
    with pytest.raises(Exception) as caught:
        execute(mistake.code, namespace(mistake.code))
    message = str(caught.value)
    pattern = ".*".join(map(re.escape, mistake.message.strip().split("…")))
    assert type(caught.value).__name__ == mistake.error, message
    assert re.fullmatch(f"{pattern}.*" if mistake.message.endswith("…") else pattern, message, re.DOTALL), message
    assert message.count("\n") <= 1 and len(message) <= MAX_CHARACTERS, message
    written = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == "<user>"]
    assert written, "the traceback shows no line of the user"
