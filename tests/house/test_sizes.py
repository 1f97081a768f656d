"""How large the hand-written packages are, and how many imports stand inside functions. The numbers only fall."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ratchets import assert_keeps, assert_only_falls
from support.source_tree import python_files, relative, syntax_tree

# The core has at most 12,000 code lines. A folder has a row of its own, outside of its package's, if it grows with what
# others do, and no server needs it: with what hosts refuse (lint), with what other SDKs rename (migrate, compat), with
# vendors (providers), or with an extension or an extra that a program asks for. The package then shows its own growth.
LINT = "products/mcp_products/lint"
CARDS = "products/mcp_products/cards"
MIGRATE = "codegen/mcp_codegen/migrate"
# That first calls wait for the stream of their session took nine lines of the core, and that a server reads URLs
# without the rules of a client a file.
# FastMCP's components took 500 of compat; its helpers of tests took three files and 146 lines of products, in names.
# What headers repeat and how results are written in each version took two files and 124 lines there.
# The authorization server that a program of the official SDK embeds took six files and 600 lines of compat.
# What frameworks reach of a FastMCP by private names took a file and 150 lines of compat.
# The authorization server that a program of FastMCP is itself took a file and 66 lines of compat,
# what clients of 2.x listen to 54, and what completion functions get 7.
# That a server over stdio starts without HTTP, clients and tasks took 18 lines of products.
# What a gateway checks, and calls that end before a reload closes their connection, took 49 lines of products.
# What clients refuse where it is written, and who shares and leaves one, took 114 lines of products.
# Subscriptions that go on when a server begins anew, and what counts as refused, took 62 lines of products.
# That keys of entries without a meaning are named, and failures with the first wrong line, took 50 lines of products.
# What servers and clients of OAuth and a bridge refuse where it is written took 140 lines of products.
# What a declaration refuses because no list could have it, and what a lifespan raises in memory, took 40 lines of
# products and 3 of the core; wrong data and progress, and what `ctx.sync` lacks, took 12 and 4,
# and properties of holders and routes beside those of an app 18.
# Three faults that a simulation has found took 7 lines of products.
# Logins of several threads and servers at once, scopes that a user refuses, and issuers that do not answer took 88
# lines of products, a pause before workers that fail 9; that a refusal is not about the version one of the core.
# That an endpoint keeps its path beside routes, and what resources of other types say, took 20 lines of products,
# and that a class is not taken for an object two of the core.
COMPAT = "products/mcp_products/compat"
CODE_MODE = "products/mcp_products/code_mode"
TENANTS = "products/mcp_products/tenants"
VIEWS = "products/mcp_products/views"
METRICS = "products/mcp_products/metrics"
PROVIDERS = "products/mcp_products/auth/providers"
GATEWAY_CHECK = "products/mcp_products/relay/gateway_check"
OWN_ROWS = (GATEWAY_CHECK, METRICS, PROVIDERS, CODE_MODE, LINT, CARDS, MIGRATE, COMPAT, TENANTS, VIEWS)
MAX_FILES = {
    GATEWAY_CHECK: 2,
    METRICS: 7,
    TENANTS: 8,
    VIEWS: 3,
    CODE_MODE: 7,
    "runtime": 95,
    "products": 269,
    LINT: 20,
    CARDS: 4,
    COMPAT: 55,
    "codegen": 104,
    MIGRATE: 6,
    PROVIDERS: 3,
}
MAX_CODE_LINES = {
    GATEWAY_CHECK: 160,
    METRICS: 698,
    TENANTS: 880,
    VIEWS: 100,
    CODE_MODE: 600,
    "runtime": 11_992,
    "products": 37_692,
    LINT: 2_550,
    CARDS: 300,
    COMPAT: 6_874,
    "codegen": 17_990,  # Wrong rows, paths, templates and folders of schemas are named.
    MIGRATE: 1_680,
    PROVIDERS: 230,
}
FREE_FILES = 15  # A limit is at most so many above what is there.
FREE_CODE_LINES = 750

IMPORTS_IN_FUNCTIONS = {"runtime": 12, "products": 44, "codegen": 10}  # At most 80 in core and products.

# Why imports stand inside functions of the core and of products. Many names of one module are a `LazyModule` instead.
EXTRA = "the package is not installed everywhere: an error says what to install, or the feature is left out"
START = "a start does without it"
CIRCLE = "the module imports this one"
SYSTEM = "not every system has it"
REASONS = {
    "products/mcp_products/app/app.py": CIRCLE,
    "products/mcp_products/app/resources.py": EXTRA,
    "products/mcp_products/app/serving.py": EXTRA,
    "products/mcp_products/app/signatures/descriptions.py": START,
    "products/mcp_products/app/signatures/generated_types.py": START,
    "products/mcp_products/auth/client/storage.py": EXTRA,
    "products/mcp_products/auth/resource_server/dpop.py": EXTRA,
    "products/mcp_products/compat/auth.py": START,
    "products/mcp_products/compat/streams/websocket.py": EXTRA,
    "products/mcp_products/fast/http.py": EXTRA,
    "products/mcp_products/host/tools.py": EXTRA,
    "products/mcp_products/hosting/limits.py": SYSTEM,
    "products/mcp_products/hosting/other_servers.py": SYSTEM,
    "products/mcp_products/hosting/run.py": EXTRA,
    "products/mcp_products/openapi/apps.py": EXTRA,
    "products/mcp_products/openapi/document.py": EXTRA,
    "products/mcp_products/platforms/private_files.py": START,
    "products/mcp_products/platforms/trio.py": EXTRA,
    "products/mcp_products/platforms/windows.py": SYSTEM,
    "products/mcp_products/relay/gateway/gateway.py": EXTRA,
    "products/mcp_products/telemetry/__init__.py": EXTRA,
    "products/mcp_products/tooling/introspect.py": EXTRA,
    "products/mcp_products/workers/stores/urls.py": EXTRA,
    "runtime/mcp_runtime/aio/tasks.py": EXTRA,
    "runtime/mcp_runtime/http/clients.py": START,
    "runtime/mcp_runtime/http/outgoing.py": EXTRA,
    "products/mcp_products/json_schema/validator.py": EXTRA,
    "runtime/mcp_runtime/products.py": START,
    "products/mcp_products/models/tool_methods.py": START,
    "runtime/mcp_runtime/server/context.py": START,
    "products/mcp_products/common/keys.py": EXTRA,
    "runtime/mcp_runtime/server/limits.py": START,
    "runtime/mcp_runtime/session/interfaces.py": START,
    "runtime/mcp_runtime/transports/http_server/app.py": EXTRA,
    "runtime/mcp_runtime/transports/stdio/server.py": SYSTEM,
    "runtime/mcp_runtime/usage/keywords.py": START,
    "products/mcp_products/versions/messages.py": START,
}

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(source: str) -> int:
    """Return how many lines have a token that is neither a comment nor a part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - set(_docstring_lines(ast.parse(source))))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case _:
                continue
        yield from range(first.lineno, (first.end_lineno or 0) + 1)


def files_of(folder: str) -> list[Path]:
    """Return the modules of a folder, without those that have a row of their own."""
    others = tuple(f"{row}/" for row in OWN_ROWS if row != folder)
    return [path for path in python_files(folder) if not relative(path).startswith(others)]


def imports_in_functions(path: Path) -> list[str]:
    functions = [
        node for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    nodes = {node for function in functions for node in ast.walk(function)}
    return [f"{relative(path)}:{node.lineno}" for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize("folder", MAX_FILES)
def test_packages_have_few_files(folder: str) -> None:
    assert_keeps(len(files_of(folder)), MAX_FILES[folder], FREE_FILES)


@pytest.mark.parametrize("folder", MAX_CODE_LINES)
def test_packages_have_few_lines_of_code(folder: str) -> None:
    lines = sum(code_lines(path.read_text(encoding="utf-8")) for path in files_of(folder))
    assert_keeps(lines, MAX_CODE_LINES[folder], FREE_CODE_LINES)


@pytest.mark.parametrize("folder", IMPORTS_IN_FUNCTIONS)
def test_imports_in_functions_become_fewer(folder: str) -> None:
    places = [place for path in python_files(folder) for place in imports_in_functions(path)]
    assert_only_falls(places, IMPORTS_IN_FUNCTIONS[folder])


def test_each_import_in_a_function_has_a_reason() -> None:
    paths = [path for folder in ("runtime", "products") for path in python_files(folder)]
    assert {relative(path) for path in paths if imports_in_functions(path)} == REASONS.keys()


def test_a_line_of_code_has_a_token_of_code() -> None:
    source = '''"""A docstring
of two lines."""

# A comment.
x = [  # A comment beside code.
    1,

]
text = """two
lines"""


def f():
    """Return nothing."""
'''
    assert code_lines(source) == 6
