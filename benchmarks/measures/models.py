"""Cost of the model layer: a list of 100 tools, read to typed objects and written, compared with msgspec.

    python benchmarks/measures/models.py [--runs 25]

msgspec does the same work: it parses the JSON, validates it against classes with the same properties and default
values, and writes JSON with the names of the wire. Candidates alternate, each time in a fresh process; the table shows
the minimum, which other processes disturb least. It is also written to benchmarks/results/models.md.
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
from rich.console import Console  # noqa: E402
from stdio_load import environ  # noqa: E402
from stdio_table import markdown, shown  # noqa: E402

RESULTS = HERE / "results" / "models.md"
TOOLS = 100


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


def measured(python: str | Path, name: str, runs: int) -> dict[str, float]:
    """Return the values of a candidate from a fresh process."""
    command = [python, __file__, "--runs", str(runs), "--candidate", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ())
    values: dict[str, float] = json.loads(done.stdout)
    return values


def compare(runs: int) -> None:
    """Measure both, print the table, and write it."""
    peer = environment("msgspec", "msgspec==0.22.0", "rich")
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    for _ in range(3):
        for values, python, name in ((ours, Path(sys.executable), "pydantic"), (theirs, peer, "msgspec")):
            for key, value in measured(python, name, runs).items():
                values[key] = min(values.get(key, value), value)
    table = [[key, f"{ours[key]:,.0f}", f"{theirs[key]:,.0f}", f"{ours[key] / theirs[key]:.2f}"] for key in ours]
    caption = (
        f"A response with {TOOLS} tools, {len(message()):,} bytes. Minimum in µs of {runs * 60:,} calls; Python "
        f"{sys.version.split()[0]}. Reading validates and makes typed objects. The first two rows are steps of "
        "pydantic-core's reading; msgspec reads JSON into objects in one step, which needs to know before what the "
        f"message is.\n{when_and_where()}"
    )
    heads = ["step", "pydantic-core, µs", "msgspec, µs", "ratio"]
    Console(width=100).print(shown("a list of tools", heads, table), "", caption)
    write_results(RESULTS, f"# Cost of the model layer\n\n{caption}\n\n{markdown(heads, table)}\n")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25, help="a twentieth of the calls that are measured at a time")
    parser.add_argument("--candidate", choices=["pydantic", "msgspec"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.candidate is None:
        compare(options.runs)
    else:
        print(json.dumps({"pydantic": of_pydantic, "msgspec": of_msgspec}[options.candidate](options.runs)))


if __name__ == "__main__":
    main()
