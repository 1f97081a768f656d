"""An app that has some of everything, for the tests beside it."""

from __future__ import annotations

import enum
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, Field

from mcp_generated import App, AssistantMessage, Audio, Context, Image, ToolError, UserMessage
from mcp_generated.v2026_07_28 import types as t

HAS_APP_EXTRA = find_spec("jsonschema_rs") is not None  # Schemas of a program's own need it.


class Point(BaseModel):
    x: int
    y: int = 0


class Tree(BaseModel):
    name: str
    inner: list[Tree] = []


@dataclass
class Size:
    width: float
    height: float


class Row(TypedDict):
    id: int


class Colour(enum.Enum):
    RED = "red"


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[dict[str, str]]:
    yield {"opened": app.name}


app = App("sample", "Some of everything.", version="2", lifespan=lifespan, tool_errors=(KeyError,))


@app.tool()
async def google(city: str, days: int = 3) -> str:
    """Say the weather.

    It may rain.

    Args:
        city: Where it is.
        days: How many days.

    Returns:
        What it is like.
    """
    return f"{city} {days}"


@app.tool()
def numpy_style(city: str) -> str:
    """Say the weather.

    Parameters
    ----------
    city : str
        Where it is.
    """
    return city


@app.tool()
def rest_style(city: str) -> str:
    """Say the weather.

    :param city: Where it is.
    """
    return city


@app.tool("get-forecast", title="Forecast", annotations={"readOnlyHint": True}, icons=[{"src": "https://x.test/i.png"}])
def hyphenated(latitude: Annotated[float, Field(ge=-90, le=90, description="In degrees.")]) -> str:
    return f"{latitude:g}"


@app.tool()
async def who(ctx: Context, greeting: str = "hello") -> str:
    return f"{greeting} {ctx.client_info['name']}, {ctx.state['opened']}"


@app.tool()
def point(x: int) -> Point:
    return Point(x=x)


@app.tool()
def tree() -> Tree:
    return Tree(name="root", inner=[Tree(name="leaf")])


@app.tool()
def size() -> Size:
    return Size(1.5, 2)


@app.tool()
def row() -> Row:
    return {"id": 7}


@app.tool()
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.tool()
def names() -> list[str]:
    return ["a", "b"]


@app.tool()
def table() -> dict[str, float]:
    return {"pi": 3.14}


@app.tool()
def mixed() -> list[str | Image | Audio | t.EmbeddedResource]:
    note = t.TextResourceContents(uri="note://1", text="hi")
    return ["see", Image(b"png"), Audio(b"mp3", format="mpeg"), t.EmbeddedResource(resource=note)]


@app.tool()
def when(day: date, colour: Colour, ids: set[int], where: Point | None = None) -> str:
    return f"{day.isoformat()} {colour.name} {sorted(ids)} {where and where.x}"


@app.tool(coerce=True)
def lenient(number: int) -> str:
    return str(number)


if HAS_APP_EXTRA:

    @app.tool(
        input_schema={"type": "object", "properties": {"n-th": {"type": "integer", "minimum": 1}}, "required": ["n-th"]}
    )
    def own_schema(arguments: dict[str, Any]) -> str:
        return f"the {arguments['n-th']}th"

    @app.tool(output_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
    def own_output(lie: bool = False) -> dict[str, Any]:
        return {"ok": "yes" if lie else True}


@app.tool()
def wrong() -> Point:
    return {"x": "much"}  # type: ignore[return-value]


@app.tool()
def refuses() -> str:
    raise ToolError("not on a Sunday")


@app.tool()
def misses() -> str:
    raise KeyError("nothing there")


@app.tool()
def fails() -> str:
    raise ValueError("the password is swordfish")


@app.tool()
def thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@app.resource("sample://motd", mime_type="text/markdown")
def motd() -> str:
    """The message of the day."""
    return "# hello"


@app.resource("sample://logo", mime_type="image/png")
def logo() -> bytes:
    return b"\x89PNG"


@app.resource("weather://{city}/{day}", title="Weather")
def weather(city: str, day: int) -> dict[str, Any]:
    """The weather of a day."""
    return {"city": city, "day": day}


@app.resource("file:///docs/{+path}")
async def document(path: str) -> str:
    return path


@app.resource("search://items{?q,limit}")
def search(q: str = "", limit: int = 5) -> str:
    return f"{q} {limit}"


@app.prompt(title="Review")
def review(code: str, depth: int = 1) -> str:
    """Review some code.

    Args:
        code: What to look at.
    """
    return f"Review {depth}: {code}"


@app.prompt("chat-start")
def chat() -> list[UserMessage | AssistantMessage | dict[str, str]]:
    return [UserMessage("hi"), AssistantMessage("hello"), {"role": "user", "content": "bye"}]


@app.completion()
def complete(ref: t.PromptReference | t.ResourceTemplateReference, argument: t.CompletionArgument) -> list[str] | None:
    if argument.name != "city":
        return None
    return [f"{argument.value}{number}" for number in range(150)]


if __name__ == "__main__":
    app.run(sys.argv[1] if len(sys.argv) > 1 else "stdio")
