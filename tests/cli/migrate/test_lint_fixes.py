"""`lint --fix` in Python sources: each rule in the form of each SDK, and what is not certain stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("libcst", reason="libcst is not installed")

from mcp_codegen.migrate.python_fixes import Sources, Wanted, fixed_sources

SERVERS: Final = {
    "App": "from mcp_generated import App\n\nserver = App('shop')\n",
    "compat": "from mcp_generated.compat import FastMCP\n\nserver = FastMCP('shop')\n",
    "mcp 1.x": "from mcp.server.fastmcp import FastMCP\n\nserver = FastMCP('shop')\n",
    "mcp 2.x": "from mcp.server.mcpserver import MCPServer as Base\n\nserver = Base('shop')\n",
    "FastMCP": "import fastmcp\n\nserver = fastmcp.FastMCP('shop')\n",
}
LOW_LEVEL: Final = {
    "mcp": "import mcp.types as types\nfrom mcp.server import Server\n\nserver = Server('shop')\n",
    "compat": "from mcp_generated.compat import Server, types\n\nserver = Server('shop')\n",
}
forms = pytest.mark.parametrize("form", SERVERS)
low_levels = pytest.mark.parametrize("form", LOW_LEVEL)


def fixed(folder: Path, source: str, **wanted: Any) -> tuple[str, Sources]:
    """The source after its changes, which change nothing again."""
    path = folder / "server.py"
    path.write_text(source)
    wrong = Wanted(**wanted)
    found = fixed_sources(sorted(folder.glob("*.py")), wrong)
    for changed, data in found.texts.items():
        changed.write_bytes(data)
    assert fixed_sources([path], wrong).changes == []
    return path.read_text(), found


def told(found: Sources) -> list[str]:
    return [f"{item.path.name}:{item.line} {item.code} {item.before} → {item.after}" for item in found.changes]


RENAMED: Final = {"refused": ("orders.find",), "names": frozenset({"orders.find", "other"})}


@forms
@pytest.mark.parametrize("call", ["server.tool(name='orders.find')", "server.tool('orders.find', description='x')"])
def test_a_refused_name_of_a_function_changes(form: str, call: str, tmp_path: Path) -> None:
    source = SERVERS[form] + f"\n\n@{call}  # find\ndef find():\n    return 1\n"
    text, found = fixed(tmp_path, source, **RENAMED)
    assert text == source.replace("orders.find", "orders_find")
    assert told(found) == ["server.py:6 M001 'orders.find' → 'orders_find'"]


@forms
def test_a_refused_name_that_is_added_changes_in_tests_too(form: str, tmp_path: Path) -> None:
    test = tmp_path / "test_server.py"
    test.write_text("async def test(client):\n    await client.call_tool('orders.find', {})\n")
    source = SERVERS[form] + "\nserver.add_tool(print, name='orders.find')\n"
    text, found = fixed(tmp_path, source, **RENAMED)
    assert text == source.replace("orders.find", "orders_find")
    assert test.read_text() == "async def test(client):\n    await client.call_tool('orders_find', {})\n"
    assert len(found.changes) == 2


LISTED: Final = """
@server.list_tools()
async def tools():
    return [types.Tool(name="orders.find", inputSchema={"type": "object"}), types.Tool(name="other", inputSchema=OTHER)]


@server.call_tool()
async def call(name, arguments):
    if name == "orders.find":
        return []
    match name:
        case "orders.find":
            return []
    return {"orders.find": tools}[name]
"""


@low_levels
def test_a_refused_name_of_the_low_level_changes_where_it_is_compared(form: str, tmp_path: Path) -> None:
    source = LOW_LEVEL[form] + LISTED
    text, found = fixed(tmp_path, source, **RENAMED)
    assert text == source.replace("orders.find", "orders_find")
    assert len(found.changes) == 4


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("path = 'orders.find'\n", "'orders.find' stays: server.py:6 has it as something else perhaps"),
        ("server.add_tool(len, name='orders.find')\n", "'orders.find' stays: it is registered at 2 places"),
        ("other = 'orders_find'\n", "'orders.find' stays: 'orders_find' has another meaning in this project"),
    ],
)
def test_a_name_that_may_mean_something_else_stays(more: str, reason: str, tmp_path: Path) -> None:
    source = SERVERS["App"] + f"server.add_tool(print, name='orders.find')\n\n{more}"
    text, found = fixed(tmp_path, source, **RENAMED)
    assert (text, found.left) == (source, [reason])


@pytest.mark.parametrize("names", [{"a.b", "a_b"}, {"größe"}])
def test_a_name_without_a_certain_one_stays(names: set[str], tmp_path: Path) -> None:
    refused = tuple(name for name in names if not name.isidentifier() or not name.isascii())
    source = SERVERS["App"] + "".join(f"server.add_tool(print, name={name!r})\n" for name in sorted(names))
    assert fixed(tmp_path, source, refused=refused, names=frozenset(names))[0] == source


PRINTING: Final = """
print("ready")


@server.tool()
def find(text: str) -> str:
    print("looking for", text)
    return text


def main():
    print("usage")


if __name__ == "__main__":
    server.run({})
"""


@forms
@pytest.mark.parametrize("transport", ["", "'stdio'", "transport='stdio'"])
def test_prints_of_the_start_and_of_handlers_go_to_standard_error(form: str, transport: str, tmp_path: Path) -> None:
    text, found = fixed(tmp_path, SERVERS[form] + PRINTING.format(transport))
    expected = SERVERS[form] + PRINTING.format(transport)
    for words in ('"ready"', '"looking for", text'):
        expected = expected.replace(f"print({words})", f"print({words}, file=sys.stderr)")
    assert text == "import sys\n\n" + expected
    assert [item.code for item in found.changes] == ["M060", "M060"]


@forms
@pytest.mark.parametrize("transport", ["'http'", "transport=chosen"])
def test_prints_of_a_server_over_http_stay(form: str, transport: str, tmp_path: Path) -> None:
    source = SERVERS[form] + PRINTING.format(transport)
    assert fixed(tmp_path, source)[0] == source


@low_levels
def test_prints_of_handlers_of_the_low_level_go_to_standard_error(form: str, tmp_path: Path) -> None:
    source = "import sys\n" + LOW_LEVEL[form] + LISTED.replace("    match", "    print(name)\n    match")
    assert fixed(tmp_path, source)[0] == source  # Nothing says that it is served over stdio.
    served = source + "\n\nasync def main():\n    async with stdio_server() as streams:\n        pass\n"
    assert fixed(tmp_path, served)[0] == served.replace("print(name)", "print(name, file=sys.stderr)")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("print('shop is', 'starting')\n", None),
        (
            "def main():\n    print('shop  is starting')\n",
            "import sys\ndef main():\n    print('shop  is starting', file=sys.stderr)\n",
        ),
        (
            "import os\nprint('shop is starting',)\n",
            "import sys\nimport os\nprint('shop is starting', file=sys.stderr,)\n",
        ),
        ("sys = 1\nprint('shop is starting')\n", None),
        ("def print(text): ...\nprint('shop is starting')\n", None),
        ("print('shop is starting', file=log)\n", None),
    ],
)
def test_a_line_that_the_server_has_printed_goes_to_standard_error(
    source: str, expected: str | None, tmp_path: Path
) -> None:
    assert fixed(tmp_path, source, noise="shop is starting")[0] == (expected or source)


@low_levels
def test_a_schema_without_properties_gets_them(form: str, tmp_path: Path) -> None:
    source = LOW_LEVEL[form] + LISTED
    text, found = fixed(tmp_path, source, bare=frozenset({"orders.find", "other"}))
    assert text == source.replace('{"type": "object"}', '{"type": "object", "properties": {}}')
    line = LOW_LEVEL[form].count("\n") + 4
    assert told(found) == [f'server.py:{line} M014 {{"type": "object"}} → {{"type": "object", "properties": {{}}}}']


def test_a_schema_of_an_app_without_properties_gets_them(tmp_path: Path) -> None:
    decorator = "\n@server.tool(name='me', input_schema={'type': 'object',})\ndef me(arguments):\n    return 1\n"
    text, _ = fixed(tmp_path, SERVERS["App"] + decorator, bare=frozenset({"me"}))
    assert text == SERVERS["App"] + decorator.replace("'object',", "'object', \"properties\": {},")


def test_a_file_that_cannot_be_parsed_stays(tmp_path: Path) -> None:
    source = "print 'shop is starting'\n"
    assert fixed(tmp_path, source, noise="shop is starting")[0] == source
