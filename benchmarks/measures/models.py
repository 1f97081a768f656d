"""Cost of the model layer: a list of 100 tools, read to typed objects and written, compared with `mcp_types` of the
official SDK and with msgspec.

    python benchmarks/measures/models.py [--runs 25]

msgspec does the same work: it parses the JSON, validates it against classes with the same properties and default
values, and writes JSON with the names of the wire. mcp_types reads as the client of the SDK does: the message, then the
result as a type of the negotiated version, then as the type that users get. Candidates alternate, each time in a fresh
process; the table shows the minimum, which other processes disturb least. It is also written to
benchmarks/results/models.md.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from measures.machine import measured as when_and_where  # noqa: E402
from measures.rounds import write_results  # noqa: E402
from peers import environment  # noqa: E402
from stdio_load import environ  # noqa: E402

RESULTS = HERE / "results" / "models.md"
TOOLS = 100
SDK = "mcp-types==2.3.0"
REMARK = """The aim was to read in at most the time of mcp_types, and 2.2 times that of msgspec. The second is out of
reach of pydantic-core: its JSON parser alone takes more than the half of it, and the validation of these tools with no
model inside of them and no further properties takes as long as msgspec takes for all (pydantic 2.14). Plain BaseModels
with the properties of msgspec's classes, without aliases and further properties, take 2.8 to 3.4 times its time."""


def message() -> bytes:
    """Return the response with the tools."""
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The words to search for."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
    }
    tools = [
        {
            "name": f"search_{number}",
            "title": f"Search {number}",
            "description": "Search the documents of the collection, and return the best of them with their scores.",
            "inputSchema": schema,
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }
        for number in range(TOOLS)
    ]
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"tools": tools}}, separators=(",", ":")).encode()


def least(function: Callable[[], object], runs: int) -> float:
    """Return the microseconds of the fastest of many calls."""
    best = float("inf")
    for _ in range(runs * 20):
        began = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - began)
    return best * 1e6


def of_pydantic(runs: int) -> dict[str, float]:
    """Measure pydantic-core, as the runtime uses it."""
    from pydantic_core import from_json

    from mcp_generated.v2025_11_25.methods import FromClient
    from mcp_runtime.protocol import jsonrpc

    data, row = message(), FromClient.LIST_TOOLS

    def read() -> Any:
        decoded: Any = jsonrpc.decode(data)
        return row.read_result(decoded.result)

    parsed = from_json(data)["result"]
    result = read()
    assert json.loads(jsonrpc.result(7, result)) == json.loads(data)
    return {
        "JSON to dicts": least(lambda: from_json(data), runs),
        "dicts to objects": least(lambda: row.read_result(parsed), runs),
        "read": least(read, runs),
        "write": least(lambda: jsonrpc.result(7, result), runs),
    }


def of_mcp_types(runs: int) -> dict[str, float]:
    """Measure mcp_types of the official SDK, as its client uses it."""
    import mcp_types as types
    from mcp_types import methods
    from pydantic_core import from_json

    data = message()
    parsed = from_json(data)["result"]

    def objects(value: Any) -> Any:
        methods.validate_server_result("tools/list", "2025-11-25", value)
        return types.ListToolsResult.model_validate(value, by_name=False)

    def read() -> Any:
        return objects(types.jsonrpc_message_adapter.validate_json(data, by_name=False).result)

    def write() -> bytes:
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        response = types.JSONRPCResponse(jsonrpc="2.0", id=7, result=dumped)
        return response.model_dump_json(by_alias=True, exclude_unset=True).encode()

    result = read()
    assert len(result.tools) == len(json.loads(write())["result"]["tools"]) == TOOLS
    return {
        "JSON to dicts": least(lambda: from_json(data), runs),
        "dicts to objects": least(lambda: objects(parsed), runs),
        "read": least(read, runs),
        "write": least(write, runs),
    }


def of_msgspec(runs: int) -> dict[str, float]:
    """Measure msgspec."""
    import msgspec

    class Annotations(msgspec.Struct, rename="camel", omit_defaults=True):
        title: str | None = None
        read_only_hint: bool | None = None
        destructive_hint: bool | None = None
        idempotent_hint: bool | None = None
        open_world_hint: bool | None = None

    class Schema(msgspec.Struct, omit_defaults=True):
        type: str
        schema_: str | None = msgspec.field(default=None, name="$schema")
        properties: dict[str, dict[str, Any]] | None = None
        required: list[str] | None = None

    class Tool(msgspec.Struct, rename="camel", omit_defaults=True):
        name: str
        input_schema: Schema
        title: str | None = None
        description: str | None = None
        output_schema: Schema | None = None
        annotations: Annotations | None = None
        icons: list[dict[str, Any]] | None = None
        meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    class Result(msgspec.Struct, rename="camel", omit_defaults=True):
        tools: list[Tool]
        next_cursor: str | None = None
        meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    class Response(msgspec.Struct):
        jsonrpc: str
        id: int | str
        result: Result

    data = message()
    decoder, plain, encoder = msgspec.json.Decoder(Response), msgspec.json.Decoder(), msgspec.json.Encoder()
    parsed, response = plain.decode(data), decoder.decode(data)
    assert json.loads(encoder.encode(response)) == json.loads(data)
    return {
        "JSON to dicts": least(lambda: plain.decode(data), runs),
        "dicts to objects": least(lambda: msgspec.convert(parsed, Response), runs),
        "read": least(lambda: decoder.decode(data), runs),
        "write": least(lambda: encoder.encode(response), runs),
    }


CANDIDATES = {"pydantic": of_pydantic, "mcp_types": of_mcp_types, "msgspec": of_msgspec}


def measured(python: str | Path, name: str, runs: int) -> dict[str, float]:
    """Return the values of a candidate from a fresh process."""
    command = [python, __file__, "--runs", str(runs), "--candidate", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ())
    values: dict[str, float] = json.loads(done.stdout)
    return values


def compare(runs: int) -> None:
    """Measure all in turn, print the table, and write it."""
    from rich.console import Console
    from stdio_table import markdown, shown

    pythons = {
        "pydantic": Path(sys.executable),
        "mcp_types": environment("mcp-types", SDK),
        "msgspec": environment("msgspec", "msgspec==0.22.0"),
    }
    values: dict[str, dict[str, float]] = {name: {} for name in pythons}
    for _ in range(3):
        for name, python in pythons.items():
            for key, value in measured(python, name, runs).items():
                values[name][key] = min(values[name].get(key, value), value)
    ours, sdk, theirs = values.values()
    table = [
        [key, *(f"{value:,.0f}" for value in row), *(f"{row[0] / value:.2f}" for value in row[1:])]
        for key in ours
        for row in [(ours[key], sdk[key], theirs[key])]
    ]
    caption = (
        f"A response with {TOOLS} tools, {len(message()):,} bytes. Minimum in µs of {runs * 60:,} calls; Python "
        f"{sys.version.split()[0]}. Reading validates and makes typed objects. The first two rows are steps of "
        "pydantic-core's reading; msgspec reads JSON into objects in one step, which needs to know before what the "
        "message is. mcp_types reads as the client of the official SDK does, for the version 2025-11-25.\n"
        f"{when_and_where()}"
    )
    heads = ["step", "ours, µs", "mcp_types, µs", "msgspec, µs", "ours / mcp_types", "ours / msgspec"]
    Console(width=100).print(shown("a list of tools", heads, table), "", caption)
    write_results(RESULTS, f"# Cost of the model layer\n\n{caption}\n\n{markdown(heads, table)}\n\n{REMARK}\n")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25, help="a twentieth of the calls that are measured at a time")
    parser.add_argument("--candidate", choices=list(CANDIDATES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.candidate is None:
        compare(options.runs)
    else:
        print(json.dumps(CANDIDATES[options.candidate](options.runs)))


if __name__ == "__main__":
    main()
