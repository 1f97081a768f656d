"""A URL and a mode go in; what the newer official Python client saw of our server comes out as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import mcp

LIMIT = 40.0  # Seconds for all of it.


async def main(url: str, mode: str) -> None:
    seen: dict[str, Any] = {"progress": []}

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen["progress"].append(progress)

    async def text(name: str, arguments: dict[str, Any], **more: Any) -> str:
        return str((await client.call_tool(name, arguments, **more)).content[0].text)

    async def put(key: str, name: str, arguments: dict[str, Any]) -> None:
        seen[key] = await text(name, arguments)

    with anyio.fail_after(LIMIT):
        async with mcp.Client(url, mode=mode) as client:  # type: ignore[arg-type]
            seen["version"] = client.protocol_version
            seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            seen["echo"] = await text("echo", {"text": "héllo\n\u2028"})
            seen["steps"] = await text("steps", {"steps": 3}, progress_callback=on_progress)
            seen["big"] = len(await text("big", {}))
            seen["large"] = len(await text("echo", {"text": "y" * (3 << 20)}))
            try:
                await text("raise", {})
            except mcp.MCPError as error:
                seen["failure"] = {"code": error.error.code, "message": error.error.message}
            async with anyio.create_task_group() as group:
                for letter in "abcdefghi":
                    group.start_soon(put, letter, "echo", {"text": letter})
            with anyio.move_on_after(0.3):
                await text("wait", {})
            while json.loads(await text("status", {}))["waiting"]:
                pass
            if mode == "auto":
                async with client.listen(tools_list_changed=True) as listening:
                    await text("change", {})
                    async for event in listening:
                        seen["heard"] = type(event).__name__
                        break
            seen["status"] = json.loads(await text("status", {}))
    print(json.dumps(seen))


anyio.run(main, *sys.argv[1:])
