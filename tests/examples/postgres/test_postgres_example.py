"""The example for PostgreSQL as a child process, with a real database: what it shows, and what it refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import pytest
from support.clients import connect
from support.databases.postgres import Postgres, environment_with_driver, postgres_server
from support.project import ROOT

from mcp_generated import MCPError

pytestmark = pytest.mark.long

SERVER: Final = ROOT / "examples" / "postgres" / "server.py"
SHOP: Final = """
    CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email text UNIQUE);
    CREATE TABLE "Order Lines" (customer int NOT NULL REFERENCES customers, price numeric(9, 2) DEFAULT 1.5, day date);
    CREATE TABLE secrets (password text);
    CREATE SCHEMA archive;
    CREATE VIEW archive.cheap AS SELECT * FROM "Order Lines" WHERE price < 2;
    CREATE SEQUENCE numbers;
    COMMENT ON TABLE customers IS 'Who buys.';
    COMMENT ON COLUMN customers.email IS 'May be missing.';
    INSERT INTO customers VALUES (1, 'Ada', 'ada@example.com'), (2, 'Grace', NULL);
    INSERT INTO "Order Lines" VALUES (1, 2.5, '2026-01-02'), (1, 1, '2026-01-03'), (2, 4, NULL);
    CREATE ROLE reader LOGIN PASSWORD 'reader';
    GRANT USAGE ON SCHEMA archive TO reader;
    GRANT SELECT ON customers, "Order Lines", archive.cheap TO reader;
    CREATE ROLE writer LOGIN PASSWORD 'writer';
    GRANT ALL ON ALL TABLES IN SCHEMA public TO writer;
    GRANT ALL ON numbers TO writer;
    CREATE ROLE programs LOGIN PASSWORD 'programs' IN ROLE pg_execute_server_program;
"""
READING: Final = "SELECT md5(string_agg(x::text, '|')) FROM (TABLE customers UNION ALL TABLE customers) x"


@pytest.fixture(scope="module")
def shop() -> Iterator[Postgres]:
    with postgres_server() as server:
        server.run(SHOP)
        yield server


def client(url: str) -> AbstractAsyncContextManager[Any]:
    """A client of the example."""
    return connect([sys.executable, str(SERVER)], env={**environment_with_driver(), "DATABASE_URL": url})


async def answer(client: Any, sql: str) -> Any:
    """The structured content of a query; its text if it is an error."""
    result = await client.call_tool("query", {"sql": sql})
    return result.content[0].text if result.is_error else result.structured_content


async def test_each_table_that_the_role_may_read_is_a_resource_with_its_schema(shop: Postgres) -> None:
    async with client(shop.url("reader")) as reader:
        resources = {resource.name: resource async for resource in reader.iter_resources()}
        assert list(resources) == ['"Order Lines"', "archive.cheap", "customers"]
        assert resources["customers"].description == "Who buys."
        schemas = {}
        for name, resource in resources.items():
            [content] = (await reader.read_resource(resource.uri)).contents
            schemas[name] = json.loads(content.text)
        shop.run("CREATE TABLE later (x int); GRANT SELECT ON later TO reader")
        assert "later" in [resource.name async for resource in reader.iter_resources()]
        shop.run("DROP TABLE later")
    columns = {column["name"]: column for column in schemas["customers"]["columns"]}
    assert columns["id"] == {"name": "id", "type": "integer", "nullable": False, "default": None, "comment": None}
    assert columns["email"]["comment"] == "May be missing." and columns["email"]["nullable"]
    assert "PRIMARY KEY (id)" in schemas["customers"]["constraints"]
    assert schemas['"Order Lines"']["constraints"] == ["FOREIGN KEY (customer) REFERENCES customers(id)"]
    assert [column["default"] for column in schemas['"Order Lines"']["columns"]] == [None, "1.5", None]
    assert [column["type"] for column in schemas["archive.cheap"]["columns"]] == ["integer", "numeric(9,2)", "date"]


async def test_the_template_completes_names_and_refuses_those_that_are_no_table(shop: Postgres) -> None:
    async with client(shop.url("reader")) as reader:
        [template] = (await reader.list_resource_templates()).resource_templates
        reference = {"type": "ref/resource", "uri": template.uri_template}
        result = await reader.complete(reference, {"name": "table", "value": "arch"})
        assert result.completion.values == ["archive.cheap"]
        for name in ("secrets", "pg_catalog.pg_authid", "customers'--", "customers;DROP TABLE customers"):
            with pytest.raises(MCPError, match="no table|not found"):
                await reader.read_resource(template.uri_template.replace("{table}", name.replace(" ", "%20")))


async def test_the_tool_reads_and_the_values_keep_their_types(shop: Postgres) -> None:
    joined = (
        'SELECT name, sum(price) AS total FROM customers c JOIN "Order Lines" ON customer = c.id GROUP BY 1 ORDER BY 1;'
    )
    async with client(shop.url("reader")) as reader:
        assert await answer(reader, joined) == {
            "rows": [{"name": "Ada", "total": 3.5}, {"name": "Grace", "total": 4.0}],
            "more": False,
        }
        row = "SELECT NULL AS a, true AS b, DATE '2026-01-02' AS c, '{\"x\": [1]}'::jsonb AS d, ARRAY[1, 2] AS e -- f"
        shown = await answer(reader, row)
        assert shown["rows"] == [{"a": None, "b": True, "c": "2026-01-02", "d": {"x": [1]}, "e": [1, 2]}]
        many = await answer(reader, "SELECT * FROM generate_series(1, 100000) AS number")
        assert many["rows"] == [{"number": number} for number in range(1, 201)] and many["more"] is True
        assert await answer(reader, "SELECT 1 AS x WHERE false") == {"rows": [], "more": False}


# What none of these roles may do, whatever the privileges of the role are.
WRITING: Final = (
    "DELETE FROM customers",
    "WITH gone AS (DELETE FROM customers RETURNING *) SELECT * FROM gone",
    "SELECT 1; DELETE FROM customers",
    "SELECT 1) AS x; COMMIT; DELETE FROM customers; SELECT * FROM (SELECT 1",
    "COMMIT",
    "ROLLBACK; DELETE FROM customers",
    "SET default_transaction_read_only = off",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT nextval('numbers')",
    "SELECT * FROM customers FOR UPDATE",
    "COPY customers TO PROGRAM 'cat'",
    "COPY customers TO '/tmp/customers'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "DO $$ BEGIN DELETE FROM customers; END $$",
    "SELECT * FROM customers INTO copies",
    "CREATE TABLE copies AS SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM customers",
    "",
)


async def test_nothing_is_written_even_by_a_role_that_may_write(shop: Postgres) -> None:
    before = shop.run(READING)
    async with client(shop.url("writer")) as writer:
        refused = {sql: await answer(writer, sql) for sql in WRITING}
        assert [sql for sql, text in refused.items() if "refuses this" not in str(text)] == []
    assert (shop.run(READING), shop.run("SELECT last_value, is_called FROM numbers")) == (before, "1|f\n")


async def test_what_takes_long_or_is_large_is_refused_and_the_next_query_is_served(shop: Postgres) -> None:
    async with client(shop.url("reader")) as reader:
        assert "refuses this" in await answer(reader, "SELECT pg_sleep(60)")
        endless = "SELECT set_config('statement_timeout', '0', false), CASE WHEN n > 20 THEN pg_sleep(60)::text END"
        assert "took longer" in await answer(reader, f"{endless} FROM generate_series(1, 99) AS n")
        assert "longer than" in await answer(reader, "SELECT repeat('x', 50000000)")
        assert "longer than" in await answer(reader, "SELECT repeat('x', 10000) FROM generate_series(1, 199)")
        assert (await answer(reader, "SELECT 1 AS x"))["rows"] == [{"x": 1}]
        shown = await answer(reader, "SELECT current_setting('statement_timeout') AS x")
        assert shown["rows"] == [{"x": "5s"}], "what a query sets ends with its connection"
    assert shop.run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mcp'") == "0\n"


@pytest.mark.parametrize("role", ["admin", "programs"])
async def test_a_role_that_may_do_more_than_read_is_refused(shop: Postgres, role: str) -> None:
    async with client(shop.url(role)) as powerful:
        assert "may do more than read" in await answer(powerful, "SELECT 1")
        with pytest.raises(MCPError, match="may do more than read"):
            await powerful.read_resource("postgres://database/customers/schema")


async def test_a_database_that_cannot_be_reached_is_an_error_without_the_password(shop: Postgres) -> None:
    async with client("postgresql://reader:hidden@127.0.0.1:9/shop") as nobody:
        assert await answer(nobody, "SELECT 1") == "The database cannot be reached: check DATABASE_URL."
    async with client(shop.url("reader").replace("reader@", "hidden@")) as other:
        text = await answer(other, "SELECT 1")
        assert "password authentication failed" in text and "hidden" not in text


async def test_the_prompts_have_the_schemas(shop: Postgres) -> None:
    async with client(shop.url("reader")) as reader:
        analyse = await reader.get_prompt("analyse", {"question": "Who buys most?"})
        text = analyse.messages[0].content.text
        assert "Who buys most?" in text and "archive.cheap" in text and "secrets" not in text
        profile = await reader.get_prompt("profile", {"table": "customers"})
        assert '"email"' in profile.messages[0].content.text
        with pytest.raises(MCPError, match="no table"):
            await reader.get_prompt("profile", {"table": "secrets"})
