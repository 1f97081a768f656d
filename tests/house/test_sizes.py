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

# At most 12,000 code lines in the core. What moves from the core to products raises their limits by no more than it
# lowers those of the core, but for the seam: a README, a `py.typed` and an `__init__` of a new product.
# lint has a row of its own: rules grow with what hosts refuse, and no server imports them.
# The methods of vendors took 120 lines and four files of products.
# `Type.parse` took 20 lines of the core, and a file of a product.
# To leave out what a target sends that cannot be sent on took 40 of products.
# Programs that moved here took 30 lines of compat: settings with a lifespan, and a stdio_server that a test replaces.
# codegen has five files and 600 lines for official types, which the official SDK writes by hand. products has 70 for
# the low-level server in programs of trio. `publish` took 330 lines and two files of codegen: rules of the registry.
# To tell each client of a proxy once of a change took 40 lines of products. `card=` of an app took 25.
# codegen has 150 lines and three files for the quickstart of the protocol in three languages.
# Conversion pairs among the test vectors took 130 lines and a file of codegen, and a file of products.
# cards has one too: a document of an extension, which only an extra installs.
LINT = "products/mcp_products/lint"
CARDS = "products/mcp_products/cards"
# migrate has a row of its own too: rules grow with what other SDKs change. `lint --fix` of Python sources took 300.
# `Field(strict=True)` in an app that converts arguments took two of products.
MIGRATE = "codegen/mcp_codegen/migrate"
# A standard error that nobody reads on Windows took 15 lines of products; the event loop there that listens on after a
# reset took 33 in a file, and 6 for programs of other protocols.
# To answer in the words of its originals took 280 lines of compat, with their descriptions, titles and capabilities.
# What FastMCP puts into lists and results, and the tools that its programs make, took 75.
# compat has a row of its own: it grows with the names that programs import, and no other product imports it.
COMPAT = "products/mcp_products/compat"
# To notice each part of a SQLite file that is deleted, by which calls hung, took 60 lines of products;
# to refuse wrong URLs of Redis and roots where they are written took 20, `gateway --max-bytes` 10, and
# the URIs of results as clients read them 25.
# So has code_mode, which only an extra installs.
CODE_MODE = "products/mcp_products/code_mode"
# `mount` refuses limits that would not hold, which took ten.
# A Redis Cluster as a store took two files and 310 lines of products, and three classes of channels.
# To notice a deleted file of an authorization server took 36 lines of products; answers with a full audit log,
# URLs that several servers may have, functions that choose by their first argument and forms of settings took 35.
# The messages of the Debug Adapter Protocol took a file and 75 lines of products.
# `tenant=` of an app and the admission of tasks took 11 lines of products.
# tenants has one: limits, and records of use for billing, which only an extra installs.
TENANTS = "products/mcp_products/tenants"
# Bundles that have the packages of several systems, those of programs of other languages, and servers of other SDKs
# by their file took two files and 300 lines of codegen.
# views has one: the HTML of tools, which only an extra installs. Their prefixes, and the page of `dev`, took 90 lines
# of products and a file.
VIEWS = "products/mcp_products/views"
# Roles by claim took a file and 120 lines of products; `[auth]` in the file of a gateway took a file and 60.
# A gateway in production, with circuit breakers and shared connections, took 393 lines and two files.
# The messages of other protocols over HTTP, both sides, took a file and 181 lines of products.
# The route for the metrics of all processes took 20 lines of hosting, workers and the gateway.
# metrics has one: the sum of all processes, its text and `top`, which only an extra installs.
METRICS = "products/mcp_products/metrics"
# The table of identity providers has a row: it grows with vendors. What it asks of verifiers and clients took 20 lines.
PROVIDERS = "products/mcp_products/auth/providers"
# gateway_check has one: it grows with what may be wrong in a file, and no server uses it.
GATEWAY_CHECK = "products/mcp_products/relay/gateway_check"
# Methods of vendors through proxies and gateways took a file and 180 lines of products.
OWN_ROWS = (GATEWAY_CHECK, METRICS, PROVIDERS, CODE_MODE, LINT, CARDS, MIGRATE, COMPAT, TENANTS, VIEWS)
MAX_FILES = {
    GATEWAY_CHECK: 2,
    METRICS: 8,
    TENANTS: 9,
    VIEWS: 3,
    CODE_MODE: 7,
    "runtime": 94,
    "products": 280,
    LINT: 20,
    CARDS: 4,
    COMPAT: 41,
    "codegen": 104,
    MIGRATE: 6,
    PROVIDERS: 3,
}
MAX_CODE_LINES = {
    GATEWAY_CHECK: 160,
    METRICS: 700,
    TENANTS: 900,
    VIEWS: 100,
    CODE_MODE: 600,
    "runtime": 12_000,
    "products": 38_104,
    LINT: 2_550,
    CARDS: 300,
    COMPAT: 5_455,
    "codegen": 17_960,
    MIGRATE: 1_700,
    PROVIDERS: 230,
}
FREE_FILES = 15  # A limit is at most so many above what is there.
FREE_CODE_LINES = 750

IMPORTS_IN_FUNCTIONS = {"runtime": 12, "products": 52, "codegen": 10}  # At most 80 in core and products.

# Why imports stand inside functions of the core and of products. Many names of one module are a `LazyModule` instead.
EXTRA = "the package is not installed everywhere: an error says what to install, or the feature is left out"
START = "a start does without it"
CIRCLE = "the module imports this one"
SYSTEM = "not every system has it"
REASONS = {
    "products/mcp_products/app/app.py": CIRCLE,
    "products/mcp_products/app/content.py": START,
    "products/mcp_products/app/context/request_details.py": START,
    "products/mcp_products/app/resources.py": EXTRA,
    "products/mcp_products/app/serving.py": EXTRA,
    "products/mcp_products/app/settings.py": START,
    "products/mcp_products/app/signatures/descriptions.py": START,
    "products/mcp_products/app/signatures/generated_types.py": START,
    "products/mcp_products/auth/client/storage.py": EXTRA,
    "products/mcp_products/auth/resource_server/dpop.py": EXTRA,
    "products/mcp_products/compat/auth.py": START,
    "products/mcp_products/compat/streams/websocket.py": EXTRA,
    "products/mcp_products/fast/http.py": EXTRA,
    "products/mcp_products/host/multi_client.py": START,
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
    "products/mcp_products/relay/upstream/target.py": EXTRA,
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
