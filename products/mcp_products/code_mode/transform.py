"""The transform: the list of tools becomes `search_tools` and `run_python`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from mcp_products.app.context.context import AppContext
from mcp_products.app.context.own_requests import own_request
from mcp_products.app.transforms.transform import Transform
from mcp_runtime._lazy import load
from mcp_runtime.errors import JSONRPCError, LocalError, ToolError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.server.context import ServerContext

from .sandbox import CodeLimits, Outcome, ProgramError, Sandbox
from .search import FunctionIndex
from .signatures import Function, functions_of

_MAX_QUERY: Final = 1000  # Characters of a query, which is a few words.
_SANDBOX: Final = f"{__package__}.monty"


@dataclass(frozen=True, slots=True)
class _Library:
    """The functions of one client, and their index."""

    tools: list[dict[str, Any]]
    functions: dict[str, Function]
    index: FunctionIndex


class CodeMode(Transform):
    """Replace the list of tools by `search_tools`, which returns them as typed functions, and `run_python`, which runs
    a program that calls them.

    Each call of a program passes the app as a call of the client does. Tools can still be called by their names.
    """

    def __init__(
        self,
        *,
        sandbox: Sandbox | None = None,
        limits: CodeLimits = CodeLimits(),  # noqa: B008  It is frozen.
        max_results: int = 5,
        always_visible: Collection[str] = (),
    ) -> None:
        """Create the transform.

        Args:
            sandbox: What runs programs. Default None: a `MontySandbox`, which needs the extra `code`.
            limits: The limits of one program.
            max_results: The maximum number of functions that a search returns.
            always_visible: The names of tools that stay in the list.

        Raises LocalError without the extra, and for a value that cannot be.
        """
        if isinstance(max_results, bool) or max_results < 1:
            raise LocalError(f"CodeMode(): max_results must be 1 or more; {max_results!r} is not")
        if isinstance(always_visible, str):
            raise LocalError(f"CodeMode(): always_visible must be a list of names; write [{always_visible!r}]")
        self._sandbox: Sandbox = load(_SANDBOX).MontySandbox() if sandbox is None else sandbox
        self._limits = limits
        self._max_results = max_results
        self._visible = frozenset(always_visible)
        self._last: _Library | None = None

    async def list_tools(self, tools: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the tools that stay in the list."""
        return [tool for tool in tools if tool.name in self._visible]

    def functions(self) -> Sequence[Callable[..., Any]]:
        """Return the functions to search and to run."""

        async def search_tools(
            query: Annotated[str, Field(description="What it should do, in a few words.", max_length=_MAX_QUERY)],
            ctx: AppContext[Any, Any, Any],
        ) -> Any:
            """Find functions for run_python. Returns Python signatures, the best first."""
            library = await self._library(ctx)
            found = [list(library.functions.values())[number].text for number in library.index.ranked(query)]
            shown = "\n\n".join(found[: self._max_results])
            return shown or f"nothing of {len(library.functions)} functions has these words; use others"

        async def run_python(
            code: Annotated[str, Field(description="The program.")],
            ctx: AppContext[Any, Any, Any],
        ) -> Any:
            """Run Python that calls functions found by search_tools; they need no import.

            Returns what it prints and the value of its last line. json, re, math and datetime can be imported; there
            are not files and no network. Do loops, filters and sums in the program, and print only what matters.
            """
            return await self._run(code, ctx)

        return (search_tools, run_python)

    async def _library(self, ctx: Any) -> _Library:
        """Return the functions that this client may call."""
        tools = [tool.model_dump() for tool in await self.hidden_tools(ctx)]
        last = self._last
        if last is None or last.tools != tools:
            last = self._last = _Library(tools, functions_of(tools), FunctionIndex(tools))
        return last

    async def _run(self, code: str, ctx: Any) -> str:
        if len(code) > self._limits.code:
            raise ToolError(f"the program has {len(code):,} characters, the limit is {self._limits.code:,}: shorten it")
        functions = (await self._library(ctx)).functions
        count = 0

        async def call(name: str, positional: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
            nonlocal count
            if name not in functions:
                raise NameError(f"name {name!r} is not defined")
            count += 1
            if count > self._limits.calls:
                raise ProgramError(f"more than {self._limits.calls} calls of tools; ask for less at once")
            return await _call(functions[name], positional, keywords, ctx)

        try:
            async with asyncio.timeout(self._limits.total_seconds):
                outcome = await self._sandbox.run(code, functions, call, self._limits)
        except ProgramError as error:
            raise ToolError(_cut(str(error), self._limits.output)) from None
        except TimeoutError:
            raise ToolError(f"the program took more than {self._limits.total_seconds:g} s with its calls") from None
        return _cut(_text_of(outcome), self._limits.output)


async def _call(function: Function, positional: Sequence[Any], keywords: Mapping[str, Any], ctx: Any) -> Any:
    """Return the value of a tool. Raises RuntimeError with the tool's text for a result that is an error."""
    arguments = function.wire_arguments(positional, keywords)
    try:
        result = await own_request(ctx, "call_tool", {"name": function.tool, "arguments": arguments})
    except JSONRPCError as error:
        raise RuntimeError(f"{function.name}(): {error}") from None
    content = getattr(result, "content", None)
    if content is None:
        raise RuntimeError(f"{function.name}() asks the user for input: call the tool {function.tool!r} itself")
    blocks = [block.model_dump() for block in content]
    text = "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in blocks)
    if getattr(result, "is_error", None):
        raise RuntimeError(f"{function.name}(): {text}")
    structured = getattr(result, "structured_content", None)
    if structured is None:
        return text
    value = structured.model_dump() if hasattr(structured, "model_dump") else structured
    return value["result"] if function.is_wrapped and is_object(value) and "result" in value else value


def _text_of(outcome: Outcome) -> str:
    if outcome.value is None:
        return outcome.printed or "the program printed nothing; print what you need"
    value = outcome.value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return f"{outcome.printed}{text}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters: print less"
