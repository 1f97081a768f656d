"""A gateway in a program: the servers of gateway.toml, and a tool of its own.

Run it in the checkout's folder: `python examples/gateway/office.py [FOLDER] [http PORT]`. FOLDER has the lock, which is
written if there is none, and the audit log.
"""

from __future__ import annotations

import asyncio
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from mcp_generated import Gateway

FILE: Final = Path(__file__).with_name("gateway.toml")


def settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the file, with the lock and the audit log in a folder."""
    tables = tomllib.loads(FILE.read_text())
    for key in ("lock", "audit"):
        tables["gateway"][key] = str(folder / tables["gateway"][key])
    tables["upstreams"] = {name: {**table, "command": sys.executable} for name, table in tables["upstreams"].items()}
    return tables


def office(folder: Path) -> Gateway:
    """Return the gateway."""
    gateway = Gateway(settings(folder))

    @gateway.app.tool(annotations={"readOnlyHint": True})  # type: ignore[untyped-decorator]
    def servers() -> dict[str, str]:
        """Return the servers of the office, and their state."""
        states: dict[str, str] = gateway.health()["upstreams"]
        return states

    return gateway


def main(folder: str = ".", transport: str = "stdio", port: str = "8000") -> None:
    """Serve until the client ends the connection, or until SIGINT or SIGTERM."""
    tables = settings(Path(folder))
    if not Path(tables["gateway"]["lock"]).exists():
        asyncio.run(Gateway.write_lock(tables))
    if transport == "http":
        office(Path(folder)).run("http", port=int(port))
    else:
        office(Path(folder)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
