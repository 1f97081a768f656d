"""`File`: a file that a tool, a prompt or a resource returns."""

import base64
from pathlib import Path
from typing import Any

import pytest

from mcp_generated import App, File, LocalError, UserMessage


async def block(file: File) -> dict[str, Any]:
    """Return the content block of a file that a tool returns."""
    app = App("files")

    @app.tool
    def tool() -> File:
        return file

    [definition] = await app.list_tools()
    assert definition.output_schema is None
    result = await app.call_tool("tool")
    assert not result.is_error, result
    [content] = result.content
    return content.model_dump()


CASES: dict[str, tuple[File, dict[str, Any]]] = {
    "pdf": (File(data=b"%PDF", format="pdf"), {"uri": "file:///file.pdf", "mimeType": "application/pdf"}),
    "a name": (File(data=b"%PDF", name="a b.pdf"), {"uri": "file:///a%20b.pdf", "mimeType": "application/pdf"}),
    "a name without extension": (
        File(data=b"%PDF", format="pdf", name="bill"),
        {"uri": "file:///bill.pdf", "mimeType": "application/pdf"},
    ),
    "a MIME type": (
        File(data=b"\x00", format="image/png"),
        {"uri": "file:///file.png", "mimeType": "image/png", "blob": "AA=="},
    ),
    "text": (File(data="é".encode(), format="txt"), {"uri": "file:///file.txt", "mimeType": "text/plain", "text": "é"}),
    "markdown": (File(data=b"# x", name="x.md"), {"uri": "file:///x.md", "mimeType": "text/markdown", "text": "# x"}),
    "text that is not UTF-8": (
        File(data=b"\xff", format="csv"),
        {"uri": "file:///file.csv", "mimeType": "text/csv", "blob": "/w=="},
    ),
    "unknown": (File(data=b"\x00"), {"mimeType": "application/octet-stream", "blob": "AA=="}),
}


@pytest.mark.parametrize("case", CASES)
async def test_bytes_become_an_embedded_resource(case: str) -> None:
    file, expected = CASES[case]
    content = await block(file)
    assert content["type"] == "resource"
    assert expected.items() <= content["resource"].items()
    assert ("text" in content["resource"]) is not ("blob" in content["resource"])


@pytest.mark.parametrize("by_text", [True, False])
async def test_a_path_is_read_when_the_tool_returns_it(tmp_path: Path, by_text: bool) -> None:
    path = tmp_path / "a file.bin"
    path.write_bytes(b"\x01\x02")
    content = await block(File(str(path) if by_text else path, annotations={"audience": ["user"]}))
    assert content["resource"]["uri"] == path.as_uri()
    assert base64.b64decode(content["resource"]["blob"]) == b"\x01\x02"
    assert content["annotations"] == {"audience": ["user"]}


async def test_a_file_stands_in_lists_and_prompts() -> None:
    app = App("files")

    @app.tool
    def tool() -> list[Any]:
        return ["text", File(data=b"x", format="txt")]

    @app.prompt
    def prompt() -> list[UserMessage]:
        return [UserMessage(File(data=b"x", format="txt"))]

    assert [item.type for item in (await app.call_tool("tool")).content] == ["text", "resource"]
    [message] = (await app.get_prompt("prompt")).messages
    assert message.content.type == "resource"


async def test_a_file_that_is_not_there_is_an_error_result(tmp_path: Path) -> None:
    app = App("files")

    @app.tool
    def tool() -> File:
        return File(tmp_path / "missing.txt")

    assert (await app.call_tool("tool")).is_error


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({}, "either `data` or `path`"),
        ({"path": "x", "data": b"x"}, "either `data` or `path`"),
        ({"path": "x", "name": "y"}, "`name` is for `data`"),
    ],
)
def test_a_file_without_one_source_is_refused(arguments: Any, text: str) -> None:
    with pytest.raises(LocalError, match=text):
        File(**arguments)
