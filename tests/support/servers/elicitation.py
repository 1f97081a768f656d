"""A key, as hex, and where to serve go in as arguments; a server runs whose tool asks the user for a name."""

from __future__ import annotations

import logging
import sys

from mcp_generated.v2026_07_28 import Context, Server
from mcp_generated.v2026_07_28 import types as t
from mcp_products.common.keys import KeyRing

FORM = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


class Asker(Server):
    """Says what the user said."""

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        elicited = await ctx.elicit(t.ElicitRequestFormParams.model_validate(FORM))
        text = {"type": "text", "text": f"{elicited.action} {(elicited.content or {}).get('name')}"}
        return t.CallToolResult.model_validate({"resultType": "complete", "content": [text]})


if __name__ == "__main__":
    server = Asker(name="asker", version="1", keys=KeyRing(bytes.fromhex(sys.argv[1])))
    if sys.argv[2] == "stdio":
        server.run("stdio")
    else:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)  # It tells where it listens.
        server.run("http", port=0)
