"""Packages of bindings and samples go in; every request a client has is asked of a server, and answered.

Run as `python call_everything.py SAMPLES.json`, with the packages on the path: `{module: {method: [params, result]}}`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from mcp_runtime.protocol.models import validator


async def talk(module: str, samples: dict[str, list[Any]]) -> int:
    """The number of requests that were answered."""
    package = importlib.import_module(module)
    rows = [row for row in vars(package.methods.FromClient).values() if getattr(row, "method", None) in samples]

    def handler(row: Any) -> Any:
        async def answer(self: Any, ctx: Any, params: Any) -> Any:
            return validator(row.result)(samples[row.method][1])

        return answer

    server = type("Everything", (package.Server,), {row.name: handler(row) for row in rows})
    async with package.Client.memory(server(name="everything", version="1")) as client:
        for row in rows:
            params = samples[row.method][0]
            whole = validator(row.params)({"_meta": params["_meta"]} | params if "_meta" in params else params)
            fields = {name: getattr(whole, name) for name in whole.model_fields_set if name != "meta"}
            result = await getattr(client, row.name)(**fields)
            assert isinstance(result, row.result_types), (row.method, result)
    return len(rows)


if __name__ == "__main__":
    for name, samples in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        print(name, asyncio.run(talk(name, samples)))
