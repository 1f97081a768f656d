"""The tutorials' servers as child processes, asked by our clients: what they give, and what they refuse."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.project import ROOT

from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

DEADLINE = 60.0


def within_deadline(conversation: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(conversation, DEADLINE))


def command(example: str, *words: str) -> list[str]:
    return [sys.executable, str(ROOT / "examples" / example / "server.py"), *words]


async def call_for_text(client: Any, tool: str, **arguments: Any) -> tuple[str, bool]:
    """The text of a tool's result, and whether it failed."""
    result = await client.call_tool(name=tool, arguments=arguments)
    [content] = result.content
    return content.text, bool(result.is_error)


async def call_for_content(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(name=tool, arguments=arguments)
    assert isinstance(result, t.CallToolResult) and not result.is_error, result
    return result.structured_content


async def contents(client: Client, uri: str) -> str:
    result = await client.read_resource(uri=uri)
    assert isinstance(result, t.ReadResourceResult)
    [content] = result.contents
    assert isinstance(content, t.TextResourceContents)
    return content.text


# ---- SQLite ---------------------------------------------------------------------------------------------------------


def test_sqlite_answers_questions_about_products_and_prices() -> None:
    async def conversation() -> None:
        async with connect(command("sqlite")) as client:
            answer = await call_for_content(
                client, "query", sql="SELECT count(*), min(price), max(price) FROM products"
            )
            assert answer["rows"] == [[20, 4.5, 99.5]]
            dear = await call_for_content(
                client, "query", sql="SELECT name FROM products WHERE price > 90 ORDER BY price"
            )
            assert dear == {"columns": ["name"], "rows": [["Pan"], ["Kettle"]], "more": False}
            assert "products" in await contents(client, "sqlite://tables")
            assert (await contents(client, "sqlite://tables/products")).startswith("CREATE TABLE products")
            prompt = await client.get_prompt(name="analyse", arguments={"question": "What is cheap?"})
            assert isinstance(prompt, t.GetPromptResult)
            text = str(prompt.messages[0].content)
            assert "CREATE TABLE" in text and "What is cheap?" in text

    within_deadline(conversation())


WRITING = (
    "DELETE FROM products",
    "INSERT INTO products (name, price) VALUES ('x', 1)",
    "DROP TABLE products",
    "CREATE TABLE other (x)",
    "SELECT 1; DELETE FROM products",
    "PRAGMA query_only = OFF",
    "ATTACH 'stolen.db' AS stolen",
    "VACUUM INTO 'stolen.db'",
    "SELECT load_extension('x')",
    "BEGIN IMMEDIATE",
)


@pytest.mark.long
def test_sqlite_refuses_whatever_writes_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a shop?.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE products (name TEXT, price REAL)")
        database.executemany("INSERT INTO products VALUES ('p', ?)", [(price,) for price in range(300)])
    database.close()
    before = file.read_bytes()

    async def conversation() -> None:
        async with connect(command("sqlite", str(file)), cwd=str(tmp_path)) as client:
            for sql in WRITING:
                text, failed = await call_for_text(client, "query", sql=sql)
                assert failed and "refuses" in text, (sql, text)
            many = await call_for_content(client, "query", sql="SELECT * FROM products")
            assert len(many["rows"]) == 200 and many["more"] is True
            blob = "zeroblob(200000)"
            for sql in (
                f"SELECT {', '.join([blob] * 9)}",
                f"SELECT {', '.join(['1'] * 201)}",
                "SELECT zeroblob(1000000)",
            ):
                assert (await call_for_text(client, "query", sql=sql))[1], sql
            none = await contents(client, "sqlite://tables/x'%20OR%20'1'='1")
            assert none == "-- there is no such table"

    within_deadline(conversation())
    assert file.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == [file.name]


# ---- memory and thinking --------------------------------------------------------------------------------------------


@pytest.mark.long
def test_memory_finds_again_what_was_remembered_after_a_restart(tmp_path: Path) -> None:
    server = command("memory", str(tmp_path / "memory.json"))
    entities = [
        {"name": "Ada", "kind": "person", "observations": ["likes Earl Grey"]},
        {"name": "Tea", "kind": "drink"},
    ]
    likes = {"source": "Ada", "verb": "likes", "target": "Tea"}

    async def first() -> None:
        async with connect(server) as client:
            assert await call_for_text(client, "remember", entities=entities, relations=[likes]) == (
                "2 entities, 1 relations",
                False,
            )
            more = [{"name": "Ada", "kind": "person", "observations": ["likes Earl Grey", "lives in Rome"]}]
            assert (await call_for_text(client, "remember", entities=more))[0] == "2 entities, 1 relations"
            unknown = [{"source": "Ada", "verb": "knows", "target": "Bob"}]
            assert await call_for_text(client, "remember", entities=[], relations=unknown) == (
                "There is no entity 'Bob'.",
                True,
            )

    async def second() -> None:
        async with connect(server) as client:
            graph = await call_for_content(client, "search", words="rome ADA")
            assert graph["entities"] == [
                {"name": "Ada", "kind": "person", "observations": ["likes Earl Grey", "lives in Rome"]}
            ]
            assert graph["relations"] == [likes]
            assert await call_for_text(client, "forget", names=["Tea"]) == ("1 entities, 0 relations", False)
            assert "Tea" not in await contents(client, "memory://graph")

    within_deadline(first())
    within_deadline(second())
    assert [path.name for path in tmp_path.iterdir()] == ["memory.json"]


@pytest.mark.long
def test_thinking_goes_on_revises_and_branches_off() -> None:
    async def conversation() -> None:
        async with connect(command("thinking")) as client:
            tool = "sequentialthinking"
            one = await call_for_content(client, tool, thought="first", number=1, total=2, more=True)
            assert one == {"number": 1, "total": 2, "stored": 1, "branches": [], "done": False}
            await call_for_content(client, tool, thought="no, so", number=2, total=3, more=True, revises=1)
            end = await call_for_content(
                client, tool, thought="or so", number=5, total=3, more=False, branch="b", branch_from=2
            )
            assert end == {"number": 5, "total": 5, "stored": 3, "branches": ["b"], "done": True}
            text, failed = await call_for_text(client, tool, thought="x", number=3, total=3, more=False, revises=9)
            assert failed and text == "There is no thought 9 yet."
            for wrong in ({"number": 0}, {"thought": ""}, {"more": "yes"}):
                arguments = {"thought": "x", "number": 1, "total": 1, "more": False, **wrong}
                assert (await call_for_text(client, tool, **arguments))[1], wrong
            assert (await contents(client, "thinking://thoughts")).splitlines() == [
                "trunk 1: first",
                "trunk 2: no, so",
                "b 5: or so",
            ]

    within_deadline(conversation())
