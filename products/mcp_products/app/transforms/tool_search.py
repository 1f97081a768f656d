"""Search of tools: clients see a tool to search with instead of all tools."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from mcp_products.json_schema.validator import compile_schema
from mcp_runtime.errors import InvalidSchemaError, LocalError, ToolError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.server.context import ServerContext

from ..context.context import AppContext
from ..context.own_requests import own_request
from .transform import Transform

_WORD: Final = re.compile(r"[^\W_]+")
_MAX_PATTERN: Final = 200  # Characters of a pattern.
_MAX_QUERY: Final = 1000  # Characters of a query, which is a few words.
_SATURATION: Final = 1.5  # The parameters k1 and b of BM25, with their usual values.
_LENGTH_WEIGHT: Final = 0.75


class ToolSearch(Transform):
    """The base class of transforms that replace the list of tools by two tools: one to search, one to call."""

    def __init__(self, max_results: int = 5, *, always_visible: Collection[str] = ()) -> None:
        """Create the transform.

        Args:
            max_results: The maximum number of tools in a result.
            always_visible: The names of tools that stay in the list.

        Raises LocalError unless `max_results` is above 0 and `always_visible` is a collection of names.
        """
        if isinstance(max_results, bool) or max_results < 1:
            raise LocalError(f"{type(self).__name__}(): max_results must be 1 or more; {max_results!r} is not")
        if isinstance(always_visible, str):
            raise LocalError(
                f"{type(self).__name__}(): always_visible must be a list of names; write [{always_visible!r}]"
            )
        self._max_results = max_results
        self._visible = frozenset(always_visible)

    async def list_tools(self, tools: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the tools that stay in the list."""
        return [tool for tool in tools if tool.name in self._visible]

    def functions(self) -> Sequence[Callable[..., Any]]:
        """Return the functions to search and to call."""

        async def call_tool(
            name: Annotated[str, Field(description="The name of the tool.")],
            ctx: AppContext[Any, Any, Any],
            arguments: Annotated[dict[str, Any] | None, Field(description="Its arguments.")] = None,
        ) -> Any:
            """Call a tool that a search returned."""
            if name in ("call_tool", "search_tools"):
                raise ToolError(f"{name!r} cannot be called by call_tool: call it itself")
            return await own_request(ctx, "call_tool", {"name": name, "arguments": arguments or {}})

        return (self._search_function(), call_tool)

    def _search_function(self) -> Callable[..., Any]:
        raise NotImplementedError

    async def _results(self, ctx: Any, select: Callable[[list[Any]], list[Any]]) -> list[dict[str, Any]]:
        tools = [tool for tool in await self.hidden_tools(ctx) if tool.name not in self._visible]
        return [tool.model_dump() for tool in select(tools)[: self._max_results]]


class RegexSearchTransform(ToolSearch):
    """Replace the list of tools by `search_tools`, which takes a regular expression, and `call_tool`."""

    def __init__(self, max_results: int = 5, *, always_visible: Collection[str] = ()) -> None:
        """Create the transform, with the arguments of `BM25SearchTransform`.

        Raises LocalError as that does, and without the extra `app`, which has the engine for patterns of clients.
        """
        super().__init__(max_results, always_visible=always_visible)
        _compiled("")

    def _search_function(self) -> Callable[..., Any]:
        async def search_tools(
            pattern: Annotated[str, Field(description="A regular expression.", max_length=_MAX_PATTERN)],
            ctx: AppContext[Any, Any, Any],
        ) -> list[dict[str, Any]]:
            """Search the names, descriptions and parameters of tools, without regard to case."""
            matches = _compiled(pattern)
            return await self._results(ctx, lambda tools: [tool for tool in tools if matches(_text_of(tool))])

        return search_tools


class BM25SearchTransform(ToolSearch):
    """Replace the list of tools by `search_tools`, which takes words and ranks by BM25, and `call_tool`."""

    _index: ToolIndex | None = None

    def _search_function(self) -> Callable[..., Any]:
        async def search_tools(
            query: Annotated[str, Field(description="What the tool should do, in a few words.", max_length=_MAX_QUERY)],
            ctx: AppContext[Any, Any, Any],
        ) -> list[dict[str, Any]]:
            """Search the names, descriptions and parameters of tools; the best ones come first."""
            return await self._results(ctx, lambda tools: self._ranked(query, tools))

        return search_tools

    def _ranked(self, query: str, tools: Sequence[Any]) -> list[Any]:
        """Return the tools that have words of a query, the best ones first."""
        texts = [_text_of(tool) for tool in tools]
        if self._index is None or self._index.texts != texts:
            self._index = ToolIndex(texts)
        return [tools[number] for number in self._index.ranked(query)]


class ToolIndex:
    """The words of texts, ranked by Okapi BM25. What a query costs grows with the texts that have its words."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Index texts, which are identified by their number."""
        self.texts = texts
        words = [Counter(_words(text)) for text in texts]
        lengths = [counts.total() for counts in words]
        average = (sum(lengths) / len(lengths) if lengths else 0) or 1.0
        self._norms = [_SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length / average) for length in lengths]
        self._numbers: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, counts in enumerate(words):
            for word, count in counts.items():
                self._numbers[word].append((number, count))

    def ranked(self, query: str) -> list[int]:
        """Return the numbers of the texts that have words of a query, the best ones first."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in dict.fromkeys(_words(query)):
            found = self._numbers.get(word, ())
            weight = math.log(1 + (len(self.texts) - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found:
                scores[number] += weight * count * (_SATURATION + 1) / (count + self._norms[number])
        return sorted(scores, key=lambda number: (-scores[number], number))


def _compiled(pattern: str) -> Callable[[str], bool]:
    """Return a function that searches a text for a pattern in linear time. Raises ToolError for an invalid pattern."""
    try:
        schema = compile_schema({"type": "string", "pattern": f"(?i){pattern}"})
    except InvalidSchemaError as error:
        raise ToolError(f"{pattern!r} is not a regular expression for a search: {error}") from None
    return lambda text: schema.first_error(text) is None


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _text_of(tool: Any) -> str:
    """Return the name, the title, the description and the parameters of a tool as one text."""
    schema: dict[str, Any] = tool.input_schema.model_dump()
    properties: dict[str, Any] = schema.get("properties") or {}
    texts = [tool.name, getattr(tool, "title", None), getattr(tool, "description", None)]
    for name, value in properties.items():
        texts += [name, value.get("description") if is_object(value) else None]
    return " ".join(text for text in texts if isinstance(text, str))
