"""The complete Python programs of the documents that the project was made from run with their import lines changed.

tests/app/test_tutorial.py runs the weather server, whose blocks belong together.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from interop.official.official_examples import Failure, load, our_interpreter
from interop.official.other_programs import document_programs
from support.official.imports import rewrite
from support.project import ROOT

SEEDS = Path(os.environ.get("MCP_SEEDS", ROOT.parent / "shared" / "seeds"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SEEDS.is_dir(), reason=f"the seed documents are not in {SEEDS}"),
]

SERVER = """
import sys
sys.path[:0] = {path!r}
from mcp_generated import App
app = App("weather")
@app.tool
def forecast(city: str) -> str:
    return f"sun in {{city}}"
app.run()
"""
# A provider's package whose model first calls the tool, then says what it has returned.
PROVIDER = """
class Item:
    def __init__(self, **fields):
        vars(self).update(fields)
class Anthropic:
    @property
    def messages(self):
        return self
    def create(self, model, max_tokens, messages, tools=()):
        if len(messages) == 1:
            assert tools[0]["name"] == "forecast", tools
            return Item(content=[Item(type="tool_use", name="forecast", input={"city": "Rome"}, id="1")])
        return Item(content=[Item(type="text", text=str(messages[-1]["content"]))])
"""


def programs() -> dict[str, str]:
    """Return the programs by name; one that stands in two documents once."""
    names = {source: name for name, source in document_programs(SEEDS)} if SEEDS.is_dir() else {}
    return {name: source for source, name in names.items()}


@pytest.mark.parametrize("name", programs())
def test_a_program_of_a_document_loads(name: str, tmp_path: Path) -> None:
    source = programs()[name]
    if (
        "SseServerTransport" in source
    ):  # Its routes are no endpoints of Starlette: it cannot serve on its own SDK either.
        assert "| `SseServerTransport(" in (ROOT / "docs" / "migration.md").read_text()
        return
    program = tmp_path / "program.py"
    program.write_text(rewrite(source, old=True))
    try:
        assert load(our_interpreter(), program) == {}
    except Failure as failure:
        pytest.fail(f"{name}: {failure}")


def test_the_documents_have_both_kinds_of_servers() -> None:
    sources = "".join(programs().values())
    assert re.search(r"\bFastMCP\(", sources)
    assert re.search(r"\bServer\(", sources)


def client_program() -> str:
    """Return the chat client of the documents, its blocks put together."""
    [document] = SEEDS.glob("002_*.txt")
    blocks = re.findall(r"^([ \t]*)```python[^\n]*\n(.*?)^\1```", document.read_text(), re.MULTILINE | re.DOTALL)
    first, *methods, last = (textwrap.dedent(block) for _, block in blocks)
    inside = "\n".join(textwrap.indent(method, "    ") for method in methods)
    return f"{first}\n{inside}\n{last}"


def test_the_chat_client_of_a_document_calls_a_tool(tmp_path: Path) -> None:
    program = client_program()
    assert [line for line in program.splitlines() if "async def" in line][-1] == "async def main():"
    (tmp_path / "client.py").write_text(rewrite(program, old=True))
    (tmp_path / "server.py").write_text(SERVER.format(path=[*filter(None, sys.path)]))
    (tmp_path / "anthropic.py").write_text(PROVIDER)
    (tmp_path / "dotenv.py").write_text("def load_dotenv():\n    pass\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**our_interpreter().env, "PATH": path}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env["PYTHONPATH"]])
    process = subprocess.run(
        [sys.executable, "client.py", "server.py"],
        cwd=tmp_path,
        env=env,
        input="How is the weather?\nquit\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    assert "Connected to server with tools: ['forecast']" in process.stdout
    assert "sun in Rome" in process.stdout
