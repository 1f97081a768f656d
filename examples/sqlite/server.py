"""A SQLite file goes in; a tool that reads it with SQL and the schema of each table come out, and nothing can write.

Run it: `python examples/sqlite/server.py shop.db`. Without a file it makes twenty products up, in memory.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mcp_generated import App, ToolError, UserMessage

ROWS: Final = 200  # As many rows of an answer as a model has use for.
SECONDS: Final = 5.0
LONGEST: Final = 1 << 20  # Characters and bytes of one answer.
# What would take much memory or time before the first row is there.
LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 18,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
}
# What a statement may do. All else, such as ATTACH, PRAGMA and every kind of writing, is refused by SQLite itself.
READING: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
NAMES: Final = (
    "Lamp Desk Chair Shelf Rug Vase Clock Mirror Sofa Bench Stool Tray Bowl Mug Plate Fork Knife Spoon Pan Kettle"
).split()


class Rows(NamedTuple):
    """What a query gave; `more` says that there were further rows."""

    columns: list[str]
    rows: list[list[Any]]
    more: bool


class Shop:
    """A database that can only be read. Each query has a connection of its own, so worker threads share nothing."""

    def __init__(self, file: Path | None) -> None:
        self._uri = (
            f"file:{quote(str(file.resolve()))}?mode=ro" if file else f"file:shop-{id(self)}?mode=memory&cache=shared"
        )
        self._kept = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        if file is None:
            self._kept.execute(
                "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL)"
            )
            products = [(name, 4.5 + 5 * number) for number, name in enumerate(NAMES)]
            self._kept.executemany("INSERT INTO products (name, price) VALUES (?, ?)", products)
            self._kept.commit()

    def close(self) -> None:
        self._kept.close()

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> Rows:
        """What one statement gives. Raises ToolError where it is wrong, does more than read, or takes too long."""
        late = time.monotonic() + SECONDS
        with closing(sqlite3.connect(self._uri, uri=True)) as opened:
            for limit, value in LIMITS.items():
                opened.setlimit(limit, value)
            opened.execute("PRAGMA query_only = ON")
            opened.set_authorizer(_allowed)
            opened.set_progress_handler(lambda: time.monotonic() > late, 10_000)
            try:
                cursor = opened.execute(sql, values)
                found = _short(cursor)
            except (sqlite3.Error, sqlite3.Warning) as fault:
                raise ToolError(f"The database refuses this: {fault}.") from None
            columns = [column[0] for column in cursor.description or ()]
        return Rows(columns, [[_plain(value) for value in row] for row in found[:ROWS]], len(found) > ROWS)


def _short(cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
    """The first rows of an answer, and one more if there is one."""
    found: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if size > LONGEST:
            raise ToolError(f"The answer is longer than {LONGEST} bytes; ask for less.")
        found.append(row)
        if len(found) > ROWS:
            break
    return found


def _allowed(action: int, first: str | None, second: str | None, *_: Any) -> int:
    extends = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension"
    return sqlite3.SQLITE_OK if action in READING and not extends else sqlite3.SQLITE_DENY


def _plain(value: Any) -> Any:
    return f"x'{value[:32].hex()}'" if isinstance(value, bytes) else value


@asynccontextmanager
async def opened(app: App) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        shop.close()


shop = Shop(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
app = App("sqlite", "A shop's database, to be read with SQL.", version="1.0", lifespan=opened)


@app.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
def query(sql: str) -> dict[str, Any]:
    """Read the database with one SELECT statement.

    Args:
        sql: The statement, in SQLite's dialect. At most 200 rows come back.
    """
    return shop.query(sql)._asdict()


@app.resource("sqlite://tables", mime_type="application/json")
def tables() -> list[str]:
    """The names of the tables."""
    return [row[0] for row in shop.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").rows]


@app.resource("sqlite://tables/{name}", mime_type="application/sql")
def table(name: str) -> str:
    """How a table was made."""
    found = shop.query("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).rows
    return str(found[0][0]) if found else "-- there is no such table"


@app.prompt()
def analyse(question: str) -> list[UserMessage]:
    """Have a question answered from the data."""
    schema = "\n".join(table(each) for each in tables())
    return [UserMessage(f"These are the tables:\n{schema}\nAnswer with the tool `query`: {question}")]


if __name__ == "__main__":
    app.run("stdio")
