"""Print which instances of a file of vectors an official SDK accepts: `judge_vectors.py FILE`, `{id: true}` as JSON.

It reads them as the SDK does: with its functions for each version in 2.x, with its types in 1.x. An instance of a
method that it does not have is left out.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

MISSING = object()
Line = dict[str, Any]


def by_version(line: Line, methods: Any, jsonrpc: Any) -> None:
    """Read an instance with the functions of 2.x. Raises ValidationError, or KeyError for an unknown method."""
    instance, part = line["instance"], line["part"]
    if part == "result":
        parse = getattr(methods, f"parse_{line['sender']}_result")
        parse(line["of"], line["revision"], instance)
        return
    parse = getattr(methods, f"parse_{line['sender']}_{part}")
    if "jsonrpc" in line["envelope"]:
        kind = jsonrpc.JSONRPCNotification if part == "notification" else jsonrpc.JSONRPCRequest
        kind.model_validate(instance)
    if instance.get("method") != line["of"]:
        raise ValueError("another method")
    params = instance.get("params", MISSING)
    if params is not MISSING and not isinstance(params, dict):
        raise ValueError("params are not an object")
    parse(line["of"], line["revision"], None if params is MISSING else params)


def by_type(line: Line, types: Any) -> None:
    """Read an instance as the type of 1.x with its name. Raises ValidationError, or KeyError for an unknown type."""
    if not hasattr(types, line["type"]):
        raise KeyError(line["type"])
    if "jsonrpc" in line["envelope"] and line["part"] != "result":
        kind = types.JSONRPCNotification if line["part"] == "notification" else types.JSONRPCRequest
        kind.model_validate(line["instance"])
    TypeAdapter(getattr(types, line["type"])).validate_python(line["instance"])


def main() -> None:
    """Print the verdicts."""
    lines = [json.loads(text) for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    instances = [line for line in lines if line["kind"] == "instance"]
    envelopes = {(line["of"], line["part"]): [*line["instance"]] for line in instances if line["valid"]}
    try:
        methods, jsonrpc = importlib.import_module("mcp_types.methods"), importlib.import_module("mcp_types.jsonrpc")
        types = None
    except ImportError:
        types = importlib.import_module("mcp.types")
        methods = jsonrpc = None
    verdicts: dict[str, bool] = {}
    for line in instances:
        line["envelope"] = envelopes[line["of"], line["part"]]
        try:
            by_type(line, types) if types is not None else by_version(line, methods, jsonrpc)
            verdicts[line["id"]] = True
        except KeyError:
            continue
        except (ValidationError, ValueError):
            verdicts[line["id"]] = False
    print(json.dumps(verdicts))


if __name__ == "__main__":
    main()
