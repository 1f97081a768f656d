"""A process that is forked from one that has served: its own event loop serves the same application."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.project import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")

PROGRAM = """
import asyncio, json, os, sys
from mcp_generated import connect
from mcp_generated import App, HTTPOptions
from support.http.in_process import asking

app = App("forked")


@app.tool
def plain(text: str) -> str:
    return text


@app.tool
async def coroutine(text: str) -> str:
    return text


async def said(text):
    asgi = app.asgi()
    told = []
    for revision in ("2025-11-25", "2026-07-28"):
        reached = [(app, {}), ("http://localhost/mcp", {"http": HTTPOptions(client=asking(asgi))})]
        for target, options in reached:
            async with connect(target, revisions=[revision], **options) as client:
                for tool in ("plain", "coroutine"):
                    async with asyncio.timeout(20):
                        told.append((await client.call_tool(tool, {"text": text})).content[0].text)
    return told


async def main():
    told = [await said("before")]
    reading, writing = os.pipe()
    if not os.fork():
        try:
            answer = asyncio.run(said("child"))
        except BaseException as error:
            answer = repr(error)
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    told += [json.loads(os.read(reading, 100_000)), await said("after")]
    print(json.dumps(told))


asyncio.run(main())
"""


@pytest.mark.long
def test_functions_of_both_kinds_are_called_in_the_child_and_in_the_parent() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[text] * 8 for text in ("before", "child", "after")]
