"""What code mode costs and finds, with 1,000 synthetic tools: tokens, questions, and a program of 20 calls.

    python benchmarks/code_mode/measure.py

Nothing is downloaded. Tokens are estimated, 4.4 characters each, as `mcp-generated lint` does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from thousand_tools import FOLDER, questions, tools

from mcp_generated import App, connect
from mcp_generated.code_mode import CodeMode
from mcp_products.code_mode.search import FunctionIndex
from mcp_products.code_mode.signatures import functions_of
from mcp_products.lint.sizes import seen_by_model, tokens_of

ROOT: Final = FOLDER.parent.parent
HELD_OUT: Final = ROOT / "tests" / "code_mode" / "held_out.txt"
RESULTS: Final = ROOT / "benchmarks" / "results" / "code_mode.md"
SHOWN: Final = 5
PROGRAM: Final = """total = 0
for order in shop_list_order(text="ann", limit=19)["tags"]:
    item = shop_get_order(id=order)
    if item["state"] == "open":
        total += 1
print(total, "open orders")"""


def app() -> App:
    """Return an app with the tools."""
    made = App("everything", version="1.0")

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        many = [f"order-{number}" for number in range(arguments.get("limit", 0))]
        return {"id": arguments.get("id", "1"), "title": "x" * 40, "state": "open", "tags": many}

    for tool in tools():
        schemas = {"input_schema": tool["inputSchema"], "output_schema": tool["outputSchema"]}
        made.add_tool(answer, name=tool["name"], description=tool["description"], **schemas)
    return made


def found(path: Path) -> tuple[int, int, int]:
    """Return how many questions of a file have their tool among the first five, and as the first, and their number."""
    definitions = list(tools())
    names = [tool["name"] for tool in definitions]
    index = FunctionIndex(definitions)
    rows = [(tool, [names[number] for number in index.ranked(text)[:SHOWN]]) for tool, text in questions(path)]
    return sum(tool in best for tool, best in rows), sum([tool] == best[:1] for tool, best in rows), len(rows)


async def conversation() -> dict[str, int]:
    """Return the tokens of what a model reads and writes for a program of 20 calls, and for the 20 calls."""
    served = app()
    async with connect(served) as client:
        listed = [tool.model_dump() for tool in await client.list_tools()]
        direct = 0
        for number in range(20):
            name, given = (
                ("shop_list_order", {"text": "ann", "limit": 19}) if not number else ("shop_get_order", {"id": "1"})
            )
            result = await client.call_tool(name, given)
            direct += tokens_of(json.dumps({"name": name, "arguments": given}))
            direct += sum(tokens_of(block.text) for block in result.content)
    served = app()
    served.add_transform(CodeMode())
    async with connect(served) as client:
        front = [tool.model_dump() for tool in await client.list_tools()]
        search = await client.call_tool("search_tools", {"query": "orders of a customer in the shop"})
        result = await client.call_tool("run_python", {"code": PROGRAM})
        assert result.content[0].text == "19 open orders\n", result
    return {
        "all": sum(tokens_of(seen_by_model(tool)) for tool in listed),
        "signatures": sum(tokens_of(function.text) for function in functions_of(listed).values()),
        "front": sum(tokens_of(seen_by_model(tool)) for tool in front),
        "search": tokens_of(search.content[0].text),
        "program": tokens_of(PROGRAM) + tokens_of(result.content[0].text),
        "direct": direct,
    }


def milliseconds() -> tuple[float, float]:
    """Return the time to index the tools, and that of a query."""
    definitions = list(tools())
    start = time.process_time()
    index = FunctionIndex(definitions)
    indexed = time.process_time()
    texts = [text for _, text in questions(FOLDER / "questions.txt")]
    for text in texts:
        index.ranked(text)
    return 1000 * (indexed - start), 1000 * (time.process_time() - indexed) / len(texts)


def main() -> None:
    """Measure, and write the table."""
    tokens = asyncio.run(conversation())
    seen, held = found(FOLDER / "questions.txt"), found(HELD_OUT)
    indexing, query = milliseconds()
    rows = [
        ("all schemas before the first word", f"{tokens['all']:,} tokens"),
        ("all signatures before the first word", f"{tokens['signatures']:,} tokens"),
        ("code mode before the first word", f"{tokens['front']:,} tokens"),
        ("the answer to one search: five signatures", f"{tokens['search']:,} tokens"),
        ("20 calls, one by one", f"{tokens['direct']:,} tokens"),
        ("20 calls as one program, with what it prints", f"{tokens['program']:,} tokens"),
        ("questions used for tuning: the tool is among the first five", f"{seen[0]} of {seen[2]}; first {seen[1]}"),
        ("questions held out: the tool is among the first five", f"{held[0]} of {held[2]}; first {held[1]}"),
        ("CPU to index 1,000 tools, once", f"{indexing:.0f} ms"),
        ("CPU of a query", f"{query:.2f} ms"),
    ]
    lines = ["# Code mode with 1,000 tools", "", "Measured by `python benchmarks/code_mode/measure.py`.", ""]
    lines += ["| figure | value |", "| --- | ---: |", *(f"| {name} | {value} |" for name, value in rows), ""]
    RESULTS.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
