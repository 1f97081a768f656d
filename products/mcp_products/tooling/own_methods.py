"""`python -m mcp_products.tooling.own_methods server.py`: print the methods of an app that the protocol does not have.

`mcp-codegen extension from-app` reads the JSON: the methods with the schemas of their params and results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from mcp_products.app.app import BaseApp
from mcp_products.app.methods import OwnMethod
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.revision import Notification
from mcp_runtime.usage.texts import plain

from .launch import load_server

_NOTHING: Final[dict[str, Any]] = {"type": "object", "properties": {}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the methods of the app of a file, and return 0; 2 if there is no such app."""
    [target] = sys.argv[1:] if arguments is None else arguments
    try:
        app = load_server(target)
        if not isinstance(app, BaseApp):
            raise LocalError(f"{target}: has no App, whose methods could be listed")
    except LocalError as error:
        print(f"error: {plain(' '.join(str(error).split()))}", file=sys.stderr)
        return 2
    registered: dict[Any, Any] = app.registry.methods
    methods = [_described(method, kind, own) for (method, kind), own in registered.items()]
    json.dump({"revision": app.server_class.revision.id, "methods": methods}, sys.stdout)
    return 0


def _described(method: str, kind: type, own: OwnMethod) -> dict[str, Any]:
    params = own.signature.schema() if own.params is None else _schema(own.params, "validation")
    if kind is Notification:
        return {"method": method, "params": params}
    return {"method": method, "params": params, "result": _schema(own.returns, "serialization")}


def _schema(hint: Any, mode: Any) -> dict[str, Any]:
    if hint in (None, type(None)) or hint is Any or getattr(hint, "__name__", "") == "_empty":
        return _NOTHING
    return TypeAdapter(hint).json_schema(mode=mode)


if __name__ == "__main__":
    sys.exit(main())
