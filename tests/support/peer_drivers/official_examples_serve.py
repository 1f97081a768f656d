"""Serve a program over stdio or HTTP, or only load it. Runs with the official SDK and with ours.

Arguments: how to start it, the program's file, and for `http` the port.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def load(path: Path) -> ModuleType:
    """Import a file, as a module of its package if it is in one."""
    sys.argv = [str(path)]
    if (path.parent / "__init__.py").exists() and path.parent.name.startswith("mcp_"):
        sys.path.insert(0, str(path.parent.parent))
        return importlib.import_module(f"{path.parent.name}.{path.stem}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("example", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["example"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def server_of(module: ModuleType) -> Any:
    """Return the first server object of a module."""
    for value in vars(module).values():
        if not isinstance(value, type) and callable(getattr(value, "run", None)) and not inspect.ismodule(value):
            if hasattr(value, "tool") or hasattr(value, "create_initialization_options"):
                return value
    raise SystemExit("no server object")


async def run_low_level(server: Any) -> None:
    """Serve a low-level server with the `stdio_server` that its own module would import."""
    name = "mcp.server.stdio" if type(server).__module__.startswith("mcp.") else "mcp_generated.compat"
    async with importlib.import_module(name).stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main(start: str, file: str, port: str = "0") -> None:
    """Serve one program."""
    module = load(Path(file))
    match start:
        case "load":
            print("loaded")
        case "run":
            asyncio.run(module.run())
        case "stdio" if "--transport" in Path(file).read_text(encoding="utf-8"):
            module.main(["--transport", "stdio"])
        case "stdio" if hasattr(module, "run"):
            asyncio.run(module.run())
        case "stdio":
            module.main()
        case "http":
            module.main(["--port", port])
        case "instance-http":
            server = server_of(module)
            if hasattr(getattr(server, "settings", None), "port"):
                server.settings.port = int(port)
                server.run(transport="streamable-http")
            else:
                server.run(transport="streamable-http", port=int(port))
        case _:
            server = server_of(module)
            if hasattr(server, "create_initialization_options"):
                asyncio.run(run_low_level(server))
            else:
                server.run("stdio")


if __name__ == "__main__":
    main(*sys.argv[1:])
