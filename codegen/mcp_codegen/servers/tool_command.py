"""A program whose commands are the tools of a server.

The text of a server is untrusted. It enters the program only as string literals and as a docstring.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ..json_types import JsonObject
from ..paths import Templates
from ..render.source import GENERATOR, format_module, print_template
from ..render.types import docstring, literal
from .contract import Contract
from .probe import ServerTarget
from .schema_types import shorten

_SHOWN: Final = ("description", "inputSchema")


def tool_command(contract: Contract, target: ServerTarget, source: str, templates: Templates) -> str:
    """Return the program, formatted. The values of the target's variables and its headers are not in it."""
    tools = [{"name": name, **_shown(tool)} for name, tool in contract.tools.items()]
    words = ", ".join(map(literal, target.command))
    variables = "" if target.label else ", ".join(map(literal, sorted(target.env)))
    context: dict[str, Any] = {
        "generator": GENERATOR,
        "source": literal(shorten(source))[1:-1],
        "doc": docstring(f"Call the tools of {shorten(contract.server) or 'a server'}.", ""),
        "server": literal(target.url) if target.url else f"[{words}]",
        "variables": f"[{variables}]",
        "tools": literal(json.dumps(tools)),
    }
    return format_module(print_template("tools/command.py.jinja2", context, templates), "the command")


def _shown(tool: JsonObject) -> Mapping[str, object]:
    return {name: tool[name] for name in _SHOWN if name in tool}
