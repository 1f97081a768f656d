"""Methods of generated types: tools as functions of model APIs, and their hints with the defaults."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

# Without `from __future__ import annotations`: pydantic evaluates the annotations of base classes.


_FUNCTION_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")

OpenAIEndpoint = Literal["chat", "responses"]


@dataclass(frozen=True, slots=True)
class ToolHints:
    """The hints about a tool, with the specification's defaults for those that its server does not send.

    Do not rely on the hints of a server that you do not trust. See
    https://modelcontextprotocol.io/specification/draft/schema#toolannotations

    Attributes:
        read_only: The tool does not modify its environment. Default False.
        destructive: The tool may delete or overwrite something. Default True; False for a read-only tool.
        idempotent: A repeated call with the same arguments has no further effect. Default False; True for a read-only
            tool.
        open_world: The tool reaches an open set of entities, as a web search does. Default True.
    """

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


class ToolMethods:
    """The methods of a tool of a list."""

    if TYPE_CHECKING:
        name: Any
        description: Any
        input_schema: Any

    @property
    def hints(self) -> ToolHints:
        """The hints about the tool, with the defaults of those that are absent."""
        annotations: Any = getattr(self, "annotations", None)

        def hint(name: str, default: bool) -> bool:
            value = getattr(annotations, name, None)
            return default if value is None else bool(value)

        read_only = hint("read_only_hint", False)
        return ToolHints(
            read_only,
            not read_only and hint("destructive_hint", True),
            read_only or hint("idempotent_hint", False),
            hint("open_world_hint", True),
        )

    def to_openai(self, endpoint: OpenAIEndpoint = "chat") -> dict[str, Any]:
        """Return the tool as a function of OpenAI's API.

        Args:
            endpoint: "chat" for `chat.completions.create`, or "responses" for `responses.create`.

        Raises LocalError for a name that the API rejects.
        """
        if endpoint not in ("chat", "responses"):
            raise _local_error(f'to_openai(): the endpoint is "chat" or "responses", not {endpoint!r}')
        function = {"name": _function_name(self.name, 64, "to_openai")}
        if self.description is not None:
            function["description"] = self.description
        function["parameters"] = self.input_schema.to_dict()
        if endpoint == "chat":
            return {"type": "function", "function": function}
        # The API is strict by default, and then accepts only a part of JSON Schema.
        return {"type": "function", **function, "strict": False}

    def to_anthropic(self) -> dict[str, Any]:
        """Return the tool as an item of `tools` of Anthropic's Messages API.

        Raises LocalError for a name that the API rejects.
        """
        function = {"name": _function_name(self.name, 128, "to_anthropic")}
        if self.description is not None:
            function["description"] = self.description
        return {**function, "input_schema": self.input_schema.to_dict()}

    def to_gemini(self) -> dict[str, Any]:
        """Return the tool as an item of `function_declarations` of Google's Gen AI API.

        Raises LocalError for a name that the API rejects.
        """
        function = {"name": _function_name(self.name, 64, "to_gemini")}
        if self.description is not None:
            function["description"] = self.description
        return {**function, "parameters_json_schema": self.input_schema.to_dict()}


class ToolListMethods:
    """The methods of a list of tools, and of other params and results that have one."""

    if TYPE_CHECKING:
        tools: Any

    def to_openai(self, endpoint: OpenAIEndpoint = "chat") -> list[dict[str, Any]]:
        """Return the value of `tools` for OpenAI's API: the tools of this page as functions.

        Args:
            endpoint: "chat" for `chat.completions.create`, or "responses" for `responses.create`.

        Raises LocalError for a name that the API rejects.
        """
        return to_openai(self.tools or (), endpoint)

    def to_anthropic(self) -> list[dict[str, Any]]:
        """Return the value of `tools` for Anthropic's Messages API: the tools of this page.

        Raises LocalError for a name that the API rejects.
        """
        return to_anthropic(self.tools or ())

    def to_gemini(self) -> list[dict[str, Any]]:
        """Return the value of `tools` for Google's Gen AI API: the tools of this page.

        Raises LocalError for a name that the API rejects.
        """
        return to_gemini(self.tools or ())


def to_openai(tools: Iterable[ToolMethods], endpoint: OpenAIEndpoint = "chat") -> list[dict[str, Any]]:
    """Return the value of `tools` for OpenAI's API.

    Args:
        tools: The tools of one or more servers.
        endpoint: "chat" for `chat.completions.create`, or "responses" for `responses.create`.

    Raises LocalError for a name that the API rejects.
    """
    return [tool.to_openai(endpoint) for tool in tools]


def to_anthropic(tools: Iterable[ToolMethods]) -> list[dict[str, Any]]:
    """Return the value of `tools` for Anthropic's Messages API.

    Args:
        tools: The tools of one or more servers.

    Raises LocalError for a name that the API rejects.
    """
    return [tool.to_anthropic() for tool in tools]


def to_gemini(tools: Iterable[ToolMethods]) -> list[dict[str, Any]]:
    """Return the value of `tools` for Google's Gen AI API, in `config` of `generate_content`.

    Args:
        tools: The tools of one or more servers.

    Raises LocalError for a name that the API rejects.
    """
    return [{"function_declarations": [tool.to_gemini() for tool in tools]}]


def _function_name(name: str, limit: int, method: str) -> str:
    if len(name) > limit or not _FUNCTION_NAME.fullmatch(name):
        raise _local_error(
            f"{method}(): the API rejects the tool name {name!r}; names are 1 to {limit} letters, digits, '_' and '-'\n"
            f'leave the tool out, or rename it: tool.model_copy(update={{"name": …}})'
        )
    return name


def _local_error(text: str) -> Exception:
    from mcp_runtime.errors import LocalError  # Imported late: types alone need no errors.

    return LocalError(text)
