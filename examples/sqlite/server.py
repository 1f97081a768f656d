"""A SQLite database, read-only: a tool for SQL queries, and the schema of each table as a resource.

Run it: `python examples/sqlite/server.py shop.db`. Without a file it uses twenty invented products in memory.
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

MAX_ROWS: Final = 200  # More rows are of no use to a model.
SECONDS: Final = 5.0
MAX_BYTES: Final = 1 << 20  # Characters and bytes of one result.
# Limits of SQLite for statements that need much memory or time before their first row.
LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 18,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
}
# The allowed actions of a statement. SQLite rejects all others, such as ATTACH, PRAGMA and writing.
READING: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
NAMES: Final = (
    "Lamp Desk Chair Couch Rug Vase Clock Mirror Sofa Bench Stool Tray Bowl Mug Plate Fork Knife Spoon Pan Kettle"
).split()


class Rows(NamedTuple):
    """The result of a query; `more` is True if there are further rows."""

    columns: list[str]
    rows: list[list[Any]]
    more: bool


class Shop:
    """A read-only database. Each query has a connection of its own, because tools run in worker threads."""

    def __init__(self, file: Path | None) -> None:
        self._uri = (
            f"file:{quote(str(file.resolve()))}?mode=ro" if file else f"file:shop-{id(self)}?mode=memory&cache=shared"
        )
        self._connection = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        if file is None:
            self._connection.execute(
                "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL)"
            )
            products = [(name, 4.5 + 5 * number) for number, name in enumerate(NAMES)]
            self._connection.executemany("INSERT INTO products (name, price) VALUES (?, ?)", products)
            self._connection.commit()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> Rows:
        """Run one statement. Raises ToolError if it is invalid, does more than read, or takes too long."""
        deadline = time.monotonic() + SECONDS
        with closing(sqlite3.connect(self._uri, uri=True)) as connection:
            for limit, value in LIMITS.items():
                connection.setlimit(limit, value)
            connection.execute("PRAGMA query_only = ON")
            connection.set_authorizer(_allowed)
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            try:
                cursor = connection.execute(sql, values)
                rows = _first_rows(cursor)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise ToolError(f"The database refuses this: {error}.") from None
            columns = [column[0] for column in cursor.description or ()]
        return Rows(columns, [[_plain(value) for value in row] for row in rows[:MAX_ROWS]], len(rows) > MAX_ROWS)


def _first_rows(cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
    """Return the first rows, and one more if there are more than MAX_ROWS."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if size > MAX_BYTES:
            raise ToolError(f"The result is longer than {MAX_BYTES} bytes; select less.")
        rows.append(row)
        if len(rows) > MAX_ROWS:
            break
    return rows


def _allowed(action: int, first: str | None, second: str | None, *_: Any) -> int:
    extends = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension"
    return sqlite3.SQLITE_OK if action in READING and not extends else sqlite3.SQLITE_DENY


def _plain(value: Any) -> Any:
    return f"x'{value[:32].hex()}'" if isinstance(value, bytes) else value


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[None]:
    """Close the database at the end of the server."""
    try:
        yield
    finally:
        shop.close()


shop = Shop(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
app = App("sqlite", "A shop's database, to be read with SQL.", version="1.0", lifespan=lifespan)


@app.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
def query(sql: str) -> dict[str, Any]:
    """Read the database with one SELECT statement.

    Args:
        sql: The statement, in SQLite's dialect. At most 200 rows come back.
    """
    return shop.query(sql)._asdict()


@app.resource("sqlite://tables", mime_type="application/json")
def tables() -> list[str]:
    """Return the names of the tables."""
    return [row[0] for row in shop.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").rows]


@app.resource("sqlite://tables/{name}", mime_type="application/sql")
def table(name: str) -> str:
    """Return the CREATE statement of a table."""
    statements = shop.query("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).rows
    return str(statements[0][0]) if statements else "-- there is no such table"


@app.prompt()
def analyse(question: str) -> list[UserMessage]:
    """Answer a question from the data."""
    schema = "\n".join(table(name) for name in tables())
    return [UserMessage(f"These are the tables:\n{schema}\nAnswer with the tool `query`: {question}")]


if __name__ == "__main__":
    app.run("stdio")
