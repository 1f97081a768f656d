"""A PostgreSQL database, read-only: the schema of each table as a resource, a tool for SQL, and prompts for analysis.

Run it: `DATABASE_URL=postgresql://reader:secret@localhost/shop python examples/postgres/server.py`, with the package
asyncpg. The password stands in the environment, because all users of a machine see the arguments of its programs.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import asyncpg

from mcp_generated import App, JSONRPCError, ToolError, UserMessage
from mcp_generated.providers import Provider
from mcp_generated.v2026_07_28 import types as t

MAX_ROWS: Final = 200  # More rows are of no use to a model.
MAX_CHARACTERS: Final = 1 << 20  # Of one result.
SECONDS: Final = 5.0
SETTINGS: Final = {"default_transaction_read_only": "on", "statement_timeout": "5s", "application_name": "mcp"}
# Reading is not a limit for such a role: it reads files of the server, and runs programs there.
POWERFUL: Final = """
    SELECT rolsuper OR EXISTS (
        SELECT FROM unnest('{pg_read_server_files,pg_write_server_files,pg_execute_server_program}'::text[]) AS name
        WHERE pg_has_role(current_user, name, 'MEMBER'))
    FROM pg_roles WHERE rolname = current_user"""
TABLES: Final = """
    SELECT c.oid, c.oid::regclass::text AS name, obj_description(c.oid, 'pg_class') AS comment
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
        AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
    ORDER BY name"""
COLUMNS: Final = """
    SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, NOT a.attnotnull AS nullable,
        pg_get_expr(d.adbin, d.adrelid) AS default, col_description(a.attrelid, a.attnum) AS comment
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
CONSTRAINTS: Final = "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conrelid = $1 ORDER BY conname"


@dataclass
class Rows:
    """The result of a query; `more` is True if there are further rows."""

    rows: list[dict[str, Any]]
    more: bool


def refusal(text: str) -> JSONRPCError:
    """Return the error that a client gets for a resource or a prompt; for a tool, the model gets its text."""
    return JSONRPCError(-32603, text)


@asynccontextmanager
async def reading() -> AsyncGenerator[Any]:
    """Connect for one read-only transaction: what a query sets ends with its connection.

    Raises JSONRPCError if the database refuses something, cannot be reached, or takes too long.
    """
    try:
        async with asyncio.timeout(SECONDS + 1):
            connection = await asyncpg.connect(os.environ.get("DATABASE_URL"), server_settings=SETTINGS)
            try:
                async with connection.transaction(readonly=True):
                    if await connection.fetchval(POWERFUL):
                        raise refusal("The role of DATABASE_URL may do more than read: use one without privileges.")
                    yield connection
                await connection.close()
            finally:
                connection.terminate()
    except TimeoutError:
        raise refusal(f"The database took longer than {SECONDS:g} seconds.") from None
    except asyncpg.PostgresError as error:
        raise refusal(f"The database refuses this: {error}.") from None
    except (OSError, asyncpg.InterfaceError):
        raise refusal("The database cannot be reached: check DATABASE_URL.") from None


async def tables_of(connection: Any) -> dict[str, Any]:
    """Return the tables and views that the role may read, by name."""
    return {table["name"]: table for table in await connection.fetch(TABLES)}


class Tables(Provider):
    """Lists a resource for each table there is when a client asks; the template below reads it."""

    async def list_resources(self, ctx: Any) -> list[t.Resource]:
        async with reading() as connection:
            tables = await tables_of(connection)
        return [
            t.Resource(
                uri=f"postgres://database/{quote(name)}/schema",
                name=name,
                description=table["comment"] or f"The schema of {name}.",
                mime_type="application/json",
            )
            for name, table in tables.items()
        ]


app = App("postgres", "A PostgreSQL database: its tables are resources, the tool `query` reads them.", version="1.0")
app.add_provider(Tables())


@app.resource("postgres://database/{table}/schema", mime_type="application/json")
async def schema(table: str) -> dict[str, Any]:
    """Return the columns of a table with their types, defaults and comments, and its keys and other constraints."""
    async with reading() as connection:
        row = (await tables_of(connection)).get(table)
        if row is None:
            raise JSONRPCError(-32602, f"There is no table {table!r}.")
        return {
            "table": table,
            "comment": row["comment"],
            "columns": [dict(column) for column in await connection.fetch(COLUMNS, row["oid"])],
            "constraints": [one["text"] for one in await connection.fetch(CONSTRAINTS, row["oid"])],
        }


@app.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
async def query(sql: str) -> Rows:
    """Read the database with one SELECT statement.

    Args:
        sql: The statement, in PostgreSQL's dialect. At most 200 rows come back.
    """
    try:
        rows = await rows_of(sql.strip().rstrip(";"))
    except JSONRPCError as error:
        raise ToolError(error.message) from None
    return Rows([json.loads(row) for row in rows[:MAX_ROWS]], len(rows) > MAX_ROWS)


async def rows_of(sql: str) -> list[str]:
    """Return the first rows of a SELECT as JSON, and one or more further ones if there are more than MAX_ROWS."""
    # A cursor takes a SELECT, and nothing that writes; `fetch` sends one statement, and refuses several.
    statement = f"SELECT left(row_to_json(answer)::text, {MAX_CHARACTERS + 1}) FROM (\n{sql}\n) AS answer"
    rows: list[str] = []
    async with reading() as connection:
        await connection.fetch(f"DECLARE result NO SCROLL CURSOR FOR {statement}")
        while len(rows) <= MAX_ROWS and (batch := await connection.fetch("FETCH 20 FROM result")):
            rows += [row[0] for row in batch]
            if sum(map(len, rows)) > MAX_CHARACTERS:
                raise refusal(f"The result is longer than {MAX_CHARACTERS} characters: select less.")
    return rows


@app.completion()
async def complete(ref: Any, argument: Any, context: Any) -> list[str]:
    if argument.name != "table":
        return []
    async with reading() as connection:
        return [name for name in await tables_of(connection) if name.startswith(argument.value)]


@app.prompt()
async def analyse(question: str) -> list[UserMessage]:
    """Answer a question from the data."""
    async with reading() as connection:
        names = list(await tables_of(connection))
    schemas = "\n".join([json.dumps(await schema(name)) for name in names])
    return [UserMessage(f"These are the tables:\n{schemas}\nAnswer with the tool `query`: {question}")]


@app.prompt()
async def profile(table: str) -> list[UserMessage]:
    """Describe what a table has: how many rows, which values, what is missing, what stands out."""
    text = json.dumps(await schema(table))
    return [
        UserMessage(
            f"This is a table:\n{text}\nDescribe it with the tool `query`: the number of rows, for each column the "
            "range or the most frequent values and how many are null, and rows that stand out."
        )
    ]


if __name__ == "__main__":
    app.run("stdio")
