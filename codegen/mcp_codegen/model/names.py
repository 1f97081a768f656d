"""Derive from a schema Python names, ASCII identifiers that are unique in their scope, and texts that match its
patterns."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from typing import Final

from pydantic import BaseModel

_NOT_WORD: Final = re.compile(r"[^0-9A-Za-z]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# Names a field cannot have, because attributes of pydantic and of the base classes live in the same class.
_RESERVED_BY_MODELS: Final = frozenset({*dir(BaseModel), "to_anthropic", "to_gemini", "to_dict", "to_openai", "parse"})
# Names a generated method cannot have, because the hand-written base classes have them; a test keeps this complete.
# In a class that has an attribute of such a name, the annotations below it would mean the attribute.
_ANNOTATIONS: Final = frozenset({"bool", "float", "int", "str"})
_OF_ENDPOINTS: Final = """
    as_task asgi cache_hints capabilities channel client client_class client_info client_rates close close_sse_stream
    close_standalone_sse_stream connect connected connection_state context deferral disable_components
    enable_components failures has_connected http info initialize_extras instructions is_mounted keys lifespan listen
    log memory meta multi_round_trip name notify_own once options options_with own_context params parts principal
    progress raises_failures received request_id request_log_level request_own request_sign_of_life require_scopes
    reset_visibility revision run run_async scopes self serve server state status stdio task_options task_request
    unawaited user version
"""
RESERVED_BY_ENDPOINTS: Final = frozenset(_OF_ENDPOINTS.split())
# Names a type cannot have, because the generated module uses them with their usual meaning.
_RESERVED_BY_MODULE: Final = frozenset(dir(builtins)) - {"ConnectionError"} | {
    *("Annotated", "Any", "ClassVar", "Const", "Field", "Int", "Literal", "Number", "Opt", "OptAny", "TypeAliasType"),
    *("Union", "WireModel", "const", "default_to", "TypeAlias", "Optional", "Dict", "List", "BaseModel", "ConfigDict"),
    *("Essential", "MatchedModel", "Matches", "ServerDetails", "ToolListMethods", "ToolMethods"),
}
# The parameters that generated methods have besides the properties of the params.
_PARAMETERS: Final = frozenset(
    ("self", "params", "options", "keywords", "timeout", "max_timeout", "on_progress", "meta", "bypass_cache")
)

# Characters to try for a class of characters.
_CHARACTERS: Final = "a0A-_./: é"
_TOKEN: Final = re.compile(
    r"(?P<open>\((?:\?:|\?P?<\w+>|(?!\?)))|(?P<close>\))|(?P<either>\|)|(?P<anchor>\^|\$|\\[bBAZz])"
    r"|(?P<one>\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^\\()|*+?])(?P<times>[*+?]\??|\{(?P<least>\d+)(?:,\d*)?\}\??)?",
    re.DOTALL,
)
_REPEATED: Final = re.compile(r"[*+?]\??|\{(?P<least>\d+)(?:,\d*)?\}\??")


def snake(name: str) -> str:
    """`callTool`, `CallTool` and `call-tool` → `call_tool`; may be empty where nothing of the name is ASCII."""
    return "_".join(part for part in _NOT_WORD.split(_HUMP.sub("_", name)) if part).lower()


def pascal(name: str) -> str:
    """`inputSchema` → `InputSchema`; capitals inside stay."""
    return "".join(part[:1].upper() + part[1:] for part in _NOT_WORD.split(name) if part)


def field_names(wire_names: Iterable[str]) -> dict[str, str]:
    """Return a Python attribute for each property of one object, in snake case, by wire name.

    The namespace of a key (`io.modelcontextprotocol/clientInfo`) is left out; where two properties would get the same
    attribute, one that already is an attribute keeps it, and the others get underscores at their end.
    """
    preferred = {wire: _attribute(wire) for wire in wire_names}
    chosen: dict[str, str] = {}
    used: set[str] = set()
    for wire in sorted(preferred, key=lambda wire: preferred[wire] != wire):
        attribute = preferred[wire]
        while attribute in used:
            attribute += "_"
        used.add(attribute)
        chosen[wire] = attribute
    return {wire: chosen[wire] for wire in preferred}


def _attribute(wire: str) -> str:
    attribute = snake(wire.rpartition("/")[2] or wire)
    if not attribute or attribute[0].isdigit():
        attribute = f"field_{attribute}".rstrip("_")
    if keyword.iskeyword(attribute) or attribute in _RESERVED_BY_MODELS or attribute in _ANNOTATIONS:
        attribute += "_"
    return attribute


def type_name(name: str) -> str:
    """Return a class name for a definition: the name itself wherever Python allows it."""
    identifier = name if re.fullmatch(r"[A-Za-z][0-9A-Za-z_]*", name) else pascal(name)
    if not identifier or identifier[0].isdigit():
        identifier = f"Type{identifier}"
    return identifier + "_" if keyword.iskeyword(identifier) or identifier in _RESERVED_BY_MODULE else identifier


def callable_name(stem: str) -> str:
    """Return a method of the generated classes; those of their base classes keep their names for themselves."""
    return stem + "_" if keyword.iskeyword(stem) or stem in RESERVED_BY_ENDPOINTS else stem


def parameter_name(attribute: str) -> str:
    """Return a keyword of a generated method."""
    return attribute + "_" if attribute in _PARAMETERS else attribute


# Texts that match a pattern: for the regular expressions that schemas have.


def matching_text(pattern: str) -> str | None:
    """Return a text that matches a regular expression: the shortest for its first alternatives; None if it has other
    constructs than characters, classes, groups and repetitions."""
    try:
        text, end = _text(pattern, 0)
        return text if end == len(pattern) and re.search(pattern, text) is not None else None
    except (re.error, RecursionError):  # Of a regular expression in another dialect.
        return None


def _text(pattern: str, at: int) -> tuple[str, int]:
    """Return a text of the alternatives that begin here, and where they end."""
    parts: list[str] = []
    is_first = True
    while at < len(pattern) and (match := _TOKEN.match(pattern, at)) is not None and match["close"] is None:
        at, part = match.end(), ""
        if match["open"] is not None:
            part, inner_end = _text(pattern, at)
            repeated = _REPEATED.match(pattern, inner_end + 1)
            part *= _times(repeated[0] if repeated else None, repeated["least"] if repeated else None)
            at = repeated.end() if repeated else inner_end + 1
        elif match["either"] is not None:
            is_first = False
        elif match["one"] is not None:
            part = _character(match["one"]) * _times(match["times"], match["least"])
        parts += [part] if is_first else []
    return "".join(parts), at


def _times(written: str | None, least: str | None) -> int:
    if written is None or written[0] == "+":
        return 1
    return int(least) if least is not None else 0


def _character(written: str) -> str:
    """Return a character that an atom matches."""
    candidates = _CHARACTERS if written[0] in "[.\\" else written
    if written[0] == "\\":
        candidates += written[1]
    return next((character for character in candidates if re.fullmatch(written, character)), "")
