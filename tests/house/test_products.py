"""The core names no product: what it uses of one stands behind a seam, and the front door fills the table."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from support.clients import connect
from support.source_tree import python_files, relative, syntax_tree

from mcp_products import telemetry
from mcp_products.platforms import error_output, pipe_threads, trio_client
from mcp_runtime import products
from mcp_runtime.aio.tasks import ForeignLoop
from mcp_runtime.errors import LocalError
from mcp_runtime.session.instruments import Instruments, NoInstruments
from mcp_runtime.transports.stdio.lines import ErrorOutput, PipeIO, PlainErrorOutput

CORE = python_files("runtime")

# Where the core looks for a product, by module and function: at most 24. What left the core took seven.
SEAMS = {
    "bindings/client._uri_of": "resource_names",
    "bindings/client._endpoint_of": "cards",
    "bindings/server._hosting": "hosting",
    "client/core._own_cache": "result_cache",
    "client/input_required._wait_for_task": "task_polling",
    "endpoint/base.to_async": "awaiting",
    "endpoint/checks.check_form_answer": "forms",
    "protocol/lenient.lenient_reader": "lenient",
    "protocol/wire_models._for_people": "models",
    "protocol/records.records": "records",
    "stores.workers": "workers",
    "transports/http_client/connection._new_client": "http_client",
    "transports/http_client/transport.switch_to_legacy_sse": "legacy_sse_client",
    "transports/http_server/app._legacy_endpoint": "legacy_sse_server",
    "usage/keywords._remedy": "other_names",
    "aio/tasks.fast_paths": "fast",
    "aio/tasks.foreign_loop": "foreign_loop",
    "transports/stdio/lines.error_output": "error_output",
    "transports/stdio/lines.pipe_io": "pipe_io",
    "session/instruments._telemetry": "telemetry",
    "session/instruments.new_observer": "telemetry",
    "server/state_tokens.process_keys": "keys",
    "session/interfaces.large_messages": "large",
    "session/interfaces.other_versions": "versions",
}


def test_the_core_names_no_product() -> None:
    places = [
        f"{relative(path)}:{node.lineno}"
        for path in CORE
        for node in ast.walk(syntax_tree(path))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcp_products"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("mcp_products") for alias in node.names))
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and "mcp_products" in node.value)
    ]
    assert places == []


def seams_of(path: Path) -> list[str]:
    """The functions of a module of the core that look for a product."""
    module = relative(path).removeprefix("runtime/mcp_runtime/").removesuffix(".py")
    return [
        f"{module}.{function.name}"
        for function in ast.walk(syntax_tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and node.attr in ("find", "require")
        and isinstance(node.value, ast.Name)
        and node.value.id == "products"
    ]


def test_products_are_looked_for_at_few_places() -> None:
    assert len(SEAMS) <= 24
    assert sorted(seam for path in CORE for seam in seams_of(path)) == sorted(SEAMS)


# A type checker compares each of them with the protocol of its seam.
INSTRUMENTS: list[Instruments] = [telemetry, NoInstruments()]
ERROR_OUTPUTS: list[ErrorOutput] = [error_output, PlainErrorOutput()]
FOREIGN_LOOPS: list[ForeignLoop] = [trio_client]
PIPE_IOS: list[PipeIO] = [pipe_threads]
IMPLEMENTATIONS: list[tuple[type, object]] = [
    *((Instruments, module) for module in INSTRUMENTS),
    *((ErrorOutput, module) for module in ERROR_OUTPUTS),
    *((ForeignLoop, module) for module in FOREIGN_LOOPS),
    *((PipeIO, module) for module in PIPE_IOS),
]


@pytest.mark.parametrize(("protocol", "module"), IMPLEMENTATIONS)
def test_what_a_product_has_is_what_its_seam_asks_for(protocol: type, module: object) -> None:
    names = {name for name in vars(protocol) if not name.startswith("_")}
    assert names
    assert [name for name in names if not callable(getattr(module, name, None))] == []


def test_the_front_door_fills_the_table() -> None:
    assert connect  # It is imported.
    assert {name for name in set(SEAMS.values()) if products.find(name) is None} == set()


def test_the_core_alone_has_an_empty_table_and_says_what_is_missing() -> None:
    code = "from mcp_runtime import products as p\nprint(p.find('telemetry'))\np.require('telemetry', 'on_close=')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "None\n"
    assert "LocalError: on_close= needs 'telemetry', which is not there: import mcp_generated first" in done.stderr


def test_a_product_of_another_distribution_names_what_installs_it() -> None:
    products.register({"nothing": "mcp_nothing.at_all"}, {"mcp_nothing": ("nobody", "none")})
    assert products.find("nothing") is None
    with pytest.raises(LocalError, match=r"nothing= needs mcp-generated-extras: pip install 'mcp-generated\[none\]'\n"):
        products.require("nothing", "nothing=")
