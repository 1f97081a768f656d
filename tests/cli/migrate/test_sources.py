"""`mcp-generated migrate`: what becomes of the source of a program, and what gets a mark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("libcst", reason="libcst is not installed")

from mcp_codegen.migrate.names import Goal
from mcp_codegen.migrate.project import Project
from mcp_codegen.migrate.report import MARK, Edited

V1: Final = "from mcp.server.fastmcp import FastMCP\n"
V2: Final = "from mcp.server.mcpserver import MCPServer\n"


def edited(path: Path, goal: Goal = "compat") -> Edited:
    [file] = [file for file in Project(path, goal).edited() if file.path == path]
    return file


def migrated(folder: Path, source: str, goal: Goal = "compat") -> tuple[str, list[str]]:
    """The source after its changes without its marks, and the reasons of the marks; a second run changes nothing."""
    path = folder / "program.py"
    path.write_bytes(source.encode())
    file = edited(path, goal)
    assert file.error == ""
    path.write_bytes(file.after)
    assert edited(path, goal).after == file.after, "a second run changes something"
    lines = [line for line in file.after.decode().splitlines(keepends=True) if not line.lstrip().startswith(MARK)]
    comments = file.after.decode().count(MARK)
    assert comments == len(file.marks), "each mark is a comment"
    return "".join(lines), [mark.reason for mark in file.marks]


IMPORTS: Final = {
    "one name": (V1, "from mcp_generated.compat import FastMCP\n"),
    "an alias": (
        "from fastmcp import FastMCP as F, Context\nf: F = F('x')\n",
        "from mcp_generated.compat import StandaloneFastMCP as F, Context\nf: F = F('x')\n",
    ),
    "a module with an alias": (
        "import mcp.types as types\nimport mcp_types as t\ntypes.Tool, t.Tool\n",
        "from mcp_generated.compat import types\nfrom mcp_generated.compat import types as t\ntypes.Tool, t.Tool\n",
    ),
    "a module by its path": (
        "import mcp.server.stdio\nimport mcp.types\n"
        "mcp.server.stdio.stdio_server(); mcp.types.Tool; mcp.ClientSession\n",
        "from mcp_generated import compat as mcp\nmcp.stdio_server(); mcp.types.Tool; mcp.ClientSession\n",
    ),
    "names of several modules": (
        "from mcp import ClientSession, Tool, types  # all\n",
        "from mcp_generated.compat import ClientSession, types  # all\nfrom mcp_generated.compat.types import Tool\n",
    ),
    "parentheses and comments": (
        "from mcp.types import (\n    TextContent,  # text\n    Tool,\n)\n",
        "from mcp_generated.compat.types import (\n    TextContent,  # text\n    Tool,\n)\n",
    ),
    "another name": (
        "from mcp.types import Content, ResourceReference\nx: Content\n",
        "from mcp_generated.compat.types import "
        "ContentBlock as Content, ResourceTemplateReference as ResourceReference\nx: Content\n",
    ),
    "three values of 1.x": (
        V1 + "from mcp.client.streamable_http import streamable_http_client\n",
        "from mcp_generated.compat import FastMCP\n"
        "from mcp_generated.compat import streamablehttp_client as streamable_http_client\n",
    ),
    "two values of 2.x": (
        V2 + "from mcp.client.streamable_http import streamable_http_client\n",
        "from mcp_generated.compat import MCPServer\nfrom mcp_generated.compat import streamable_http_client\n",
    ),
    "type checking and functions": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mcp.server.fastmcp import Context\n\n"
        "def f(c: 'Context'):\n"
        "    from mcp.server.fastmcp.exceptions import ToolError\n    raise ToolError\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mcp_generated.compat import Context\n\n"
        "def f(c: 'Context'):\n"
        "    from mcp_generated.compat import ToolError\n    raise ToolError\n",
    ),
    "other packages": ("import os, mcp.types as t\nimport mcp_tools\n", None),
    "the client of FastMCP": (
        "import fastmcp\nfastmcp.FastMCP('x')\n"
        "async def f():\n    async with fastmcp.Client('x') as c:\n        pass\n",
        "from mcp_generated import compat as fastmcp\n"
        "from mcp_products.compat.sessions.fastmcp_client import Client\n"
        "fastmcp.StandaloneFastMCP('x')\nasync def f():\n    async with Client('x') as c:\n        pass\n",
    ),
    "a star": (
        "from mcp.server.fastmcp import *\nserver = FastMCP('x')\n",
        "from mcp_generated.compat import FastMCP\nserver = FastMCP('x')\n",
    ),
    "a star of types": ("from mcp.types import *\nTool\n", "from mcp_generated.compat.types_v2 import *\nTool\n"),
    "a class of the same name": ("class FastMCP:\n    pass\n\nmcp = FastMCP()\nmcp.types\n", None),
    "a relative module": ("from .mcp import FastMCP\nfrom . import mcp\n", None),
    "ends of lines": (V1.replace("\n", "\r\n") + "x = 1\r\n", "from mcp_generated.compat import FastMCP\r\nx = 1\r\n"),
    "a semicolon": ("import mcp.types as t; x = 1\n", "from mcp_generated.compat import types as t; x = 1\n"),
}


@pytest.mark.parametrize("form", IMPORTS)
def test_import_lines_have_the_names_of_this_project(form: str, tmp_path: Path) -> None:
    before, after = IMPORTS[form]
    text, _ = migrated(tmp_path, before)
    expected = before if after is None else after
    if form == "other packages":
        expected = "import os\nfrom mcp_generated.compat import types as t\nimport mcp_tools\n"
    assert text == expected


STRINGS: Final = {
    'patch("mcp.types.Tool")': 'patch("mcp_generated.compat.types.Tool")',
    "patch('mcp.client.stdio.stdio_client.x')": "patch('mcp_generated.compat.stdio_client.x')",
    'setattr("mcp.server.fastmcp.FastMCP.run", 1)': 'setattr("mcp_generated.compat.FastMCP.run", 1)',
    'importlib.import_module("mcp.types")': 'importlib.import_module("mcp_generated.compat.types")',
    'patch("mcp.client.auth.OAuthContext")': "has no counterpart",
    'filterwarnings("error::mcp.shared.exceptions.MCPDeprecationWarning")': (
        'filterwarnings("error::mcp_generated.compat.MCPDeprecationWarning")'
    ),
    'getLogger("mcp")': "looks for a package",
    'import_module(f"mcp.{name}")': "put together",
    'x = "mcp.server.fastmcp"': "names a module",
    'run(["-c", "import mcp\\nmcp.run()"])': "has code that imports",
    'x = "mcp"': "",
    'x = "mcp.example.org"': "",
}


@pytest.mark.parametrize("line", STRINGS)
def test_strings_that_name_modules_change_or_get_a_mark(line: str, tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, V1 + line + "\n")
    expected = STRINGS[line]
    if expected.startswith(line[:5]):
        assert (text.splitlines()[-1], reasons) == (expected, [])
    else:
        assert text.splitlines()[-1] == line
        assert [expected in reason for reason in reasons] == ([True] if expected else [])


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ('find_spec("fastmcp")', 'find_spec("mcp_generated")'),
        ("importlib.metadata.distribution('fastmcp')", "importlib.metadata.distribution('mcp-generated')"),
    ],
)
def test_a_question_about_the_distribution_is_one_about_ours_and_gets_a_mark(
    line: str, after: str, tmp_path: Path
) -> None:
    text, reasons = migrated(tmp_path, V1 + line + "\n")
    assert text.splitlines()[-1] == after
    assert ["asked about the SDK" in reason for reason in reasons] == [True]


@pytest.mark.parametrize("called", ["version", "importlib.metadata.version"])
def test_a_question_about_the_release_of_an_sdk_is_one_about_its_names_here(called: str, tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, f"import os\nassert int({called}('fastmcp')[0]) >= 4\n")
    assert text == (
        "import os\nfrom mcp_generated.compat import sdk_version\nassert int(sdk_version('fastmcp')[0]) >= 4\n"
    )
    assert ["the release whose names are here" in reason for reason in reasons] == [True]


def test_streams_that_a_test_replaces_are_marked_for_a_native_app(tmp_path: Path) -> None:
    source = V2 + "patch('mcp.server.stdio.stdio_server', 1)\n"
    text, reasons = migrated(tmp_path, source, "app")
    assert text.splitlines()[-1] == "patch('mcp_generated.compat.stdio_server', 1)"
    assert ["connect a client to the app" in reason for reason in reasons] == [True]
    assert migrated(tmp_path, source)[1] == []


CALLED: Final = V1 + "m = FastMCP('x')\n\nasync def test():\n    print((await m.call_tool('x', {}))[0])\n"


def test_an_awaited_call_of_1_x_returns_what_it_has_returned(tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, CALLED)
    assert text == CALLED.replace(
        V1, "from mcp_generated.compat import FastMCP\nfrom mcp_generated.compat import returned_values\n"
    ).replace("(await m.call_tool('x', {}))", "(returned_values(await m.call_tool('x', {})))")
    assert reasons == []


def test_a_server_of_another_module_is_of_the_package_that_this_module_imports(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(V1 + "m = FastMCP('x')\n")
    test = tmp_path / "test_server.py"
    test.write_text("import mcp\nfrom server import m\n\nasync def test():\n    await m.call_tool('x', {})\n")
    files = {file.path: file.after for file in Project(tmp_path, "compat").edited()}
    assert b"returned_values(await m.call_tool('x', {}))" in files[test]


@pytest.mark.parametrize(
    ("requirement", "is_before"),
    [
        ("mcp==1.6.0", True),
        ("mcp[cli]==1.9", True),
        ("mcp~=1.9.2", True),
        ("mcp>=1.2,<1.10", True),
        ("mcp==1.10.0", False),
        ("mcp~=1.6", False),
        ("mcp>=1.6", False),
        ("fastmcp==1.0", False),
    ],
)
def test_tools_of_a_release_before_structured_content_have_none(
    requirement: str, is_before: bool, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement + "\n")
    source = tmp_path / "server.py"
    source.write_text(V1 + "m = FastMCP('x')\n\n@m.tool()\ndef f() -> int:\n    return 1\n")
    [file] = [file for file in Project(tmp_path, "compat").edited() if file.path == source]
    assert (b"@m.tool(structured_output=False)" in file.after) == is_before
    assert file.marks == []


MARKED: Final = {
    "a name without a counterpart": ("from mcp.client.auth import OAuthContext\n", "has no counterpart"),
    "a private attribute by its name": (
        "import mcp\ndef f(ctx):\n    return getattr(ctx, '_request_state', None)\n",
        "which is not there",
    ),
    "a private table": (V1 + "m = FastMCP('x')\nm._tool_manager\n", "private attribute"),
    "a context of a server": (V1 + "m = FastMCP('x')\nm.get_context()\n", "parameter of type Context"),
    "a keyword": (V1 + "m = FastMCP('x', tool_serializer=1)\n", "return the text itself"),
    "a dump of 1.x": (V1 + "import mcp.types as t\nx = t.Tool(name='x', inputSchema={})\nx.model_dump()\n", "by_alias"),
    "a root of 1.x": (V1 + "from mcp import types\nx = types.ServerNotification(1)\nx.root\n", ".root"),
    "two versions": (
        "try:\n    from mcp.server.mcpserver import MCPServer\nexcept ImportError:\n"
        "    from mcp.server.fastmcp import FastMCP as MCPServer\n",
        "another version",
    ),
    "a call of 1.x": (V1 + "m = FastMCP('x')\nm.call_tool('x', {})\n", "CallToolResult"),
    "settings of FastMCP": ("from fastmcp import settings\n", "no settings of the process"),
    "a handler that is added": (
        "from mcp.server import Server\ns = Server('x')\ns.add_request_handler(1, 2)\n",
        "on_…",
    ),
}


@pytest.mark.parametrize("case", MARKED)
def test_what_is_not_certain_gets_a_mark_with_its_reason(case: str, tmp_path: Path) -> None:
    source, reason = MARKED[case]
    _, reasons = migrated(tmp_path, source)
    assert [reason in text for text in reasons] == [True], reasons


def test_a_dump_by_alias_and_a_dump_of_another_model_have_no_mark(tmp_path: Path) -> None:
    source = (
        V1
        + "import mcp.types as t\nx = t.Tool(name='x', inputSchema={})\nx.model_dump(by_alias=True)\ny.model_dump()\n"
    )
    assert migrated(tmp_path, source)[1] == []


def test_a_mark_stands_above_the_statement_and_its_decorators(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(V1 + "m = FastMCP('x')\n\n# why\n@m.tool(exclude_args=['a'])\ndef f(a=1):\n    return 1\n")
    lines = edited(path).after.decode().splitlines()
    at = lines.index("# why")
    assert lines[at + 1].startswith(MARK) and lines[at + 2] == "@m.tool(exclude_args=['a'])"


NATIVE: Final = """\
from fastmcp import Context, FastMCP

server = FastMCP("shop", list_page_size=10, warn_on_duplicate_tools=False)


@server.tool
async def price(item: str, ctx: Context) -> float:
    print(ctx.fastmcp.name, ctx.lifespan_context)
    return 1.5
"""


def test_a_native_app_has_the_defaults_of_the_sdk_written_out(tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, NATIVE, "app")
    assert text == (
        "from mcp_generated import Context, App\n\n"
        'server = App("shop", page_size=10, coerce=True, tool_errors=(Exception,))\n\n\n'
        "@server.tool\nasync def price(item: str, ctx: Context) -> float:\n"
        "    print(ctx.app.name, ctx.state)\n    return 1.5\n"
    )
    assert len(reasons) == 3


@pytest.mark.parametrize(
    "returns", ["list[int]", "List", "Union[List[Dict], str]", "list[int] | None", "Optional[List]"]
)
def test_a_list_of_a_native_app_is_marked_and_that_of_compat_is_as_before(returns: str, tmp_path: Path) -> None:
    source = f"from fastmcp import FastMCP\nm = FastMCP('x')\n@m.tool\ndef f() -> {returns}:\n    return [1]\n"
    _, reasons = migrated(tmp_path, source, "app")
    assert any("content block" in reason for reason in reasons)
    assert "content block" not in str(migrated(tmp_path, source))


@pytest.mark.parametrize("call", ["append(1)", "extend([1, 2])"])
def test_middleware_that_is_added_to_a_native_app_is_called_as_before(call: str, tmp_path: Path) -> None:
    source = V2 + f"def add(m: MCPServer):\n    m.middleware.{call}\n"
    assert migrated(tmp_path, source, "app") == (
        "from mcp_generated import App\nfrom mcp_generated.compat import OfficialMiddleware\n"
        f"def add(m: App):\n    OfficialMiddleware(m.middleware).{call}\n",
        [],
    )
    assert f"m.middleware.{call}" in migrated(tmp_path, source)[0]


def test_other_uses_of_the_list_of_middleware_of_a_native_app_are_marked(tmp_path: Path) -> None:
    source = V2 + "def count(m: MCPServer):\n    return len(m.middleware)\n"
    assert any("@app.middleware" in reason for reason in migrated(tmp_path, source, "app")[1])
    assert migrated(tmp_path, source)[1] == []


def test_subscriptions_of_a_native_app_are_left_out_with_a_mark(tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, V2 + "m = MCPServer('x', subscriptions=False)\n", "app")
    assert "subscriptions" not in text
    assert any("left out: an App declares" in reason for reason in reasons)


def test_settings_of_a_native_app_are_marked_but_for_its_lifespan(tmp_path: Path) -> None:
    source = V1 + "m = FastMCP('x')\nm.settings.lifespan(m)\n"
    text, reasons = migrated(tmp_path, source, "app")
    assert text.splitlines()[-1] == "m.registry.lifespan(m)"
    assert not any("settings" in reason for reason in reasons)
    _, reasons = migrated(tmp_path, V1 + "m = FastMCP('x')\nm.settings.port\n", "app")
    assert any("settings of an App" in reason for reason in reasons)
    assert migrated(tmp_path, source)[1] == []


OWN_CLASS: Final = """\
from fastmcp import FastMCP


class Shop(FastMCP):
    def __init__(self, name: str) -> None:
        super().__init__(name, list_page_size=10)


class Plain:
    def __init__(self) -> None:
        super().__init__()


shop = Shop("x")
"""


def test_a_class_of_the_program_has_the_keywords_where_it_calls_that_of_the_sdk(tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, OWN_CLASS, "app")
    assert "super().__init__(name, page_size=10, coerce=True, tool_errors=(Exception,))" in text
    assert 'shop = Shop("x")' in text and "super().__init__()" in text
    assert sum("otherwise in an App" in reason for reason in reasons) == 1
    assert migrated(tmp_path, OWN_CLASS)[1] == []


def test_an_object_of_a_class_of_the_program_is_a_server(tmp_path: Path) -> None:
    _, reasons = migrated(tmp_path, OWN_CLASS + "shop._tool_manager\n")
    assert ["private attribute" in reason for reason in reasons] == [True]


def test_a_context_that_a_test_makes_stays_that_of_compat(tmp_path: Path) -> None:
    source = "from mcp.server.fastmcp import Context, FastMCP\n"
    assert migrated(tmp_path, source + "Context()\n", "app")[0] == (
        "from mcp_generated.compat import Context\nfrom mcp_generated import App\nContext()\n"
    )
    text, _ = migrated(tmp_path, source + "class C(Context): ...\n", "app")
    assert "from mcp_generated.compat import Context" in text
    assert migrated(tmp_path, source, "app")[0] == "from mcp_generated import Context, App\n"


TOOLS: Final = """\
from fastmcp.tools import Tool


def register(shop):
    shop.add_tool(
        Tool.from_function(
            price,
            name="price",  # of one
        )
    )
"""


def test_a_native_app_gets_the_function_of_a_tool_that_a_program_makes(tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, TOOLS, "app")
    assert '    shop.add_tool(\n            price,\n            name="price",  # of one\n        )\n' in text
    assert reasons == []
    for other in ("tool = Tool.from_function(price)", "shop.add_tool(Tool.from_function(fn=price))"):
        text, reasons = migrated(tmp_path, TOOLS + other + "\n", "app")
        assert (other in text, ["takes the function itself" in reason for reason in reasons]) == (True, [True])
    assert "Tool.from_function(" in migrated(tmp_path, TOOLS)[0] and migrated(tmp_path, TOOLS)[1] == []


def test_what_an_app_does_otherwise_is_one_mark_at_its_constructor(tmp_path: Path) -> None:
    _, reasons = migrated(tmp_path, V1 + "m = FastMCP('x')\n", "app")
    assert sum("otherwise in an App" in reason for reason in reasons) == 1
    assert migrated(tmp_path, V1 + "m = FastMCP('x')\n")[1] == []


@pytest.mark.parametrize(
    ("requirement", "is_older"),
    [
        ("fastmcp==2.7.0", True),
        ("fastmcp>=2.8.1", True),
        ("fastmcp<3", True),
        ("fastmcp[auth]~=2.7", True),
        ("fastmcp>=3.4", False),
        ("fastmcp>=4,<5", False),
        ("fastmcp", False),
        ("mcp>=2.3", False),
    ],
)
def test_a_server_of_fastmcp_2_is_told_what_later_releases_list(
    requirement: str, is_older: bool, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement + "\n")
    source = tmp_path / "server.py"
    source.write_text("from fastmcp import FastMCP\nm = FastMCP('x')\n")
    [file] = [file for file in Project(tmp_path, "compat").edited() if file.path == source]
    assert ["than in FastMCP 2" in mark.reason for mark in file.marks] == ([True] if is_older else [])


def test_an_object_of_a_native_app_is_marked_and_that_of_compat_is_as_before(tmp_path: Path) -> None:
    source = (
        "from typing import Dict\nfrom fastmcp import FastMCP\nm = FastMCP('x')\n"
        "@m.tool(name='g')\ndef f() -> Dict[str, int]:\n    return {}\n"
    )
    _, reasons = migrated(tmp_path, source, "app")
    assert any('below "result"' in reason for reason in reasons)
    assert migrated(tmp_path, source)[1] == []


def test_a_name_of_the_author_stays_where_a_native_one_is_taken(tmp_path: Path) -> None:
    text, _ = migrated(tmp_path, V1 + "class App(FastMCP):\n    pass\n", "app")
    assert text == "from mcp_generated import App as FastMCP\nclass App(FastMCP):\n    pass\n"


def test_a_file_of_another_encoding_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\n" + V1.encode() + b"x = '\xe9'\n")
    assert edited(path).after == b"# -*- coding: latin-1 -*-\nfrom mcp_generated.compat import FastMCP\nx = '\xe9'\n"


@pytest.mark.parametrize(
    "data", [b"from mcp import x\nprint 'x'\n", b"from mcp import x\n\xff\xfe\n", b"# coding: none\nimport mcp\n"]
)
def test_a_file_that_cannot_be_read_is_named_and_left(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_bytes(data)
    file = edited(path)
    assert file.after == data and file.error


def test_servers_of_other_modules_are_known_to_tests(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(V1 + "mcp = FastMCP('x')\n")
    (tmp_path / "test_server.py").write_text("from server import mcp\n\ndef test():\n    assert mcp._tool_manager\n")
    files = {file.path.name: file for file in Project(tmp_path, "compat").edited()}
    assert [mark.line for mark in files["test_server.py"].marks] == [4]


MADE: Final = """

def make(
    name: str = '(x)',
) -> FastMCP:
    return FastMCP(name)


def other() -> str:
    return ''
"""


@pytest.mark.parametrize("name", ["shop.py", "shop/__init__.py"])
def test_a_server_that_a_function_returns_is_known_to_its_module_and_to_tests(name: str, tmp_path: Path) -> None:
    used = "shop = make()\nshop._tool_manager\nother()._tool_manager\n"
    assert [mark for mark in migrated(tmp_path, V1 + MADE + used)[1] if "private" in mark] != []
    (tmp_path / "program.py").unlink()
    source = tmp_path / name
    source.parent.mkdir(exist_ok=True)
    source.write_text(V1 + MADE)
    (tmp_path / "test_shop.py").write_text("from shop import make, other  # of mcp\n" + used)
    files = {file.path.name: file for file in Project(tmp_path, "compat").edited()}
    assert [mark.line for mark in files["test_shop.py"].marks] == [3]
