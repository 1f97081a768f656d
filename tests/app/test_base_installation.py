"""What an App's ordinary use needs works without the optional packages, or says at its declaration what to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.installation.distributions import built_distributions, wheel_of
from support.installation.environments import create_environment, install_packages
from support.project import ROOT

# The import names of all packages that a server or a client of App may use if they are there.
OPTIONAL = """
    cryptography docstring_parser filelock httpx httpx2 joserfc jsonschema jsonschema_rs keyring opentelemetry
    starlette uritemplate uvicorn uvloop yaml
    """.split()

# `sys.modules[name] = None` would be simpler, but opentelemetry counts as imported then.
BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""

PROGRAM = '''
import asyncio, json, sys
from typing import Annotated, Any
from pydantic import BaseModel, Field
from mcp_generated import App, Context, KeyRing, LocalError, REVISIONS, ToolError, UserMessage
from mcp_generated.v2026_07_28 import types as t
from mcp_products.versions.adapters import server_candidates
from importlib import import_module

app = App("base", capabilities={"logging": {}})

@app.tool()
async def book(ctx: Context, guests: Annotated[int, Field(ge=1)], day: str = "today") -> str:
    """Book a table.

    It may take some time.

    Args:
        guests: How many come.
        day: When they come,
            as a date.

    Returns:
        What was booked.
    """
    await ctx.progress(1, 2, "half")
    await ctx.log("info", "booking")
    schema = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
    form = t.ElicitRequestFormParams.model_validate({"message": "Who?", "requestedSchema": schema})
    answer = await ctx.elicit(form)
    return f"{guests} {day} {answer.content['name']}"

@app.tool()
def size(rows: list[dict[str, float]]) -> dict[str, int]:
    return {"rows": len(rows)}

@app.resource("note://{name}")
def note(name: str) -> dict[str, str]:
    return {"name": name}

@app.prompt()
def review(code: str) -> list[UserMessage]:
    """Review.

    :param code: What to look at.
    """
    return [UserMessage(f"Review {code}")]

async def uses(revision: str, package: str) -> dict[str, Any]:
    seen: dict[str, Any] = {"progress": [], "logs": []}
    module = import_module(f"mcp_generated.{package}")
    names = iter(["A", "Ann"])

    class Client(module.Client):
        async def on_logging_message(self, ctx, params): seen["logs"].append(params.data)
        async def on_elicit(self, ctx, params):
            return module.types.ElicitResult(action="accept", content={"name": next(names)})

    async with Client.memory(*server_candidates(app.server)) as client:
        tools = {tool.name: tool.model_dump(exclude_none=True) async for tool in client.iter_tools()}
        seen["book"] = [tools["book"]["description"], tools["book"]["inputSchema"]["properties"]]
        seen["size"] = (await client.call_tool(name="size", arguments={"rows": [{"a": 1}]})).model_dump()
        seen["wrong"] = (await client.call_tool(name="size", arguments={"rows": 5})).is_error
        seen["note"] = (await client.read_resource(uri="note://a")).contents[0].text
        seen["prompt"] = (await client.get_prompt(name="review", arguments={"code": "x"})).messages[0].content.text
        [prompt] = [prompt async for prompt in client.iter_prompts()]
        seen["argument"] = prompt.arguments[0].description
        if revision >= "2025-06-18":
            seen["short"] = await answer(client)
            seen["booked"] = await answer(client)
    return seen

async def answer(client) -> str:
    """The text of a result, or of the error where the client refuses its own answer."""
    try:
        result = await client.call_tool(name="book", arguments={"guests": 2})
    except Exception as error:
        return str(error)
    return result.content[0].text

def refusals() -> list[str]:
    """What App says at once of what needs a package."""
    attempts = [
        lambda: app.add_tool(lambda arguments: "", "own", input_schema={"type": "object"}),
        lambda: app.add_tool(lambda: {}, "own", output_schema={"type": "object"}),
        lambda: App("keys", keys=KeyRing(KeyRing.new_key())),
    ]
    texts = []
    for attempt in attempts:
        try:
            attempt()
        except LocalError as error:
            texts.append(str(error))
    return texts

seen = {revision: asyncio.run(uses(revision, package)) for revision, package in REVISIONS.items()}
json.dump({"seen": seen, "refusals": refusals(), "loaded": sorted(sys.modules)}, sys.stdout)
'''


def check(output: dict[str, Any]) -> None:
    """Assert what the program prints."""
    loaded = {name.partition(".")[0] for name in output["loaded"]}
    assert not loaded & {*OPTIONAL}
    assert len(output["seen"]) == 5
    for revision, seen in output["seen"].items():
        description, properties = seen["book"]
        assert description == "Book a table.\n\nIt may take some time."
        assert properties["guests"] == {"type": "integer", "minimum": 1, "description": "How many come."}
        assert properties["day"]["description"] == "When they come,\nas a date."
        assert seen["size"]["content"][0]["text"] == '{\n  "rows": 1\n}' and seen["wrong"] is True
        assert (seen["note"], seen["prompt"]) == ('{\n  "name": "a"\n}', "Review x")
        assert seen["argument"] == "What to look at."
        if revision >= "2025-06-18":
            assert seen["booked"] == "2 today Ann", revision
            assert "2 today" not in seen["short"], revision
            assert ("booking" in seen["logs"]) is (revision < "2026"), revision  # Later ones ask for logs.
    assert len(output["refusals"]) == 3
    for refusal in output["refusals"]:
        assert "pip install 'mcp-generated[" in refusal and len(refusal.splitlines()) <= 2


def run(python: str, program: str, folder: Path, env: dict[str, str]) -> dict[str, Any]:
    script = folder / "base.py"
    script.write_text(program, encoding="utf-8")
    done = subprocess.run([python, script], capture_output=True, text=True, timeout=120, env=env, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    output: dict[str, Any] = json.loads(done.stdout)
    return output


@pytest.mark.long
def test_an_app_works_where_the_optional_packages_cannot_be_imported(tmp_path: Path) -> None:
    blocked = BLOCK.format(names=OPTIONAL)
    path = os.pathsep.join(str(ROOT / name) for name in ("runtime", "products", "generated"))
    output = run(sys.executable, blocked + PROGRAM, tmp_path, {**os.environ, "PYTHONPATH": path})
    check(output)


@pytest.mark.exhaustive
def test_an_app_works_in_an_environment_with_the_base_installation(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wheel = wheel_of(built_distributions(tmp_path_factory))
    python = create_environment(tmp_path / "venv")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    install_packages(python, str(wheel), env=env)
    check(run(str(python), PROGRAM, tmp_path, env))
