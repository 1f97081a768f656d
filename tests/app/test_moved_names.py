"""Names of other SDKs that leave the native context: they warn there, and stay in `compat`."""

from __future__ import annotations

import warnings
from typing import Any

from support.clients import connect
from support.installation.extras import optional

from mcp_generated import App, Context

compat = optional("mcp_generated.compat")

PROPERTIES = {"fastmcp": "app", "mcp_server": "app", "lifespan_context": "state"}
METHODS = {f"notify_{kind}s_changed": f"notify_{kind}_list_changed" for kind in ("tool", "resource", "prompt")}


async def warned_of(app: Any) -> dict[str, list[str]]:
    """The warnings about each old name, which a function uses; each has to do what the new one does."""
    found: dict[str, list[str]] = {}

    @app.tool()
    async def use(ctx: Context) -> str:
        for old, new in (PROPERTIES | METHODS).items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if old in METHODS:
                    await getattr(ctx, old)()
                else:
                    assert getattr(ctx, old) is getattr(ctx, new)
            assert all(item.category is DeprecationWarning and item.filename == __file__ for item in caught)
            found[old] = [str(item.message) for item in caught]
        return "used"

    async with connect(app) as client:
        assert not (await client.call_tool("use")).is_error
    return found


async def test_a_native_context_names_the_line_to_write() -> None:
    found = await warned_of(App("native"))
    for old, new in (PROPERTIES | METHODS).items():
        [message] = found[old]
        assert message.startswith(f"ctx.{old} leaves with the next minor version: write ctx.{new}, or ")


async def test_the_context_of_compat_keeps_the_names() -> None:
    assert await warned_of(compat.FastMCP("compat")) == {old: [] for old in PROPERTIES | METHODS}
