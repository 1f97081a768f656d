"""The calls of the tools of servers/composition.py that all clients make."""

from __future__ import annotations

from typing import Any

CALLS: dict[str, dict[str, Any]] = {
    "price": {"item": "tea"},
    "cost": {"thing": "tea"},
    **{name: {} for name in ("wait", "delete_all", "secret", "greet", "unlock")},
}
