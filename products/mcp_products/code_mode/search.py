"""How a question finds tools: words are compared by their stems, and those of a name count more than others.

The index is that of `BM25SearchTransform`: what a query costs grows with the tools that have its words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_products.app.transforms.tool_search import ToolIndex
from mcp_runtime.protocol.models import is_object

_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
_MAX_TEXT: Final = 2000  # Characters of a description that are searched.
_NAME_WEIGHT: Final = 1
# Words of questions that say nothing of a tool.
_NO_CONTENT: Final = frozenset(
    "a an and are as at be by can do does for from has have how i if in into is it its me my of on or our please "
    "should that the their them there this to want was we what when where who will with you your".split()
)
_ENDINGS: Final = (
    *(("ization", "ize"), ("isation", "ize"), ("ational", "ate"), ("fulness", "ful"), ("iveness", "ive")),
    *(("ations", "ate"), ("ation", "ate"), ("ments", ""), ("ment", ""), ("ings", ""), ("ing", ""), ("ies", "y")),
    *(("ied", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("ers", ""), ("er", "")),
    *(("ions", ""), ("ion", ""), ("ors", ""), ("or", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", "")),
)
_PLURAL: Final = re.compile(r"[a-z]{2}[^su\W\d_]s\b")  # Who names several often wants them listed.
_LIST: Final = "list"
_LEAST: Final = 3  # Characters of a stem.
# What people say, and the verb that names of tools have for it. A query has both.
_VERBS: Final = {
    "create": "add arrange book insert make new open post publish put record register rent request schedule send start "
    "store submit upload write",
    "list": "all browse enumerate exist find overview search which",
    "get": "describe detail display fetch information look read retrieve show tell",
    "update": "adjust change correct dim edit modify move raise rename replace set switch turn",
    "delete": "cancel drop erase release remove revoke stop take unsubscribe withdraw",
}


class FunctionIndex:
    """The tools of a client, found by questions."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Index the definitions of tools, which are identified by their number."""
        self.texts = [text_of(tool) for tool in tools]
        self._index = ToolIndex(self.texts)

    def ranked(self, query: str) -> list[int]:
        """Return the numbers of the tools that have words of a query, the best ones first."""
        stems = stems_of(query)
        verbs = [_OF_STEM[word] for word in stems if word in _OF_STEM]
        if _PLURAL.search(query):
            verbs.append(_LIST)
        return self._index.ranked(" ".join([*stems, *verbs]))


def text_of(tool: Mapping[str, Any]) -> str:
    """Return the stems of a tool: of its name, its title, its description and its arguments."""
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if is_object(schema) else None
    words = [*stems_of(str(tool.get("name")))] * _NAME_WEIGHT
    for text in (tool.get("title"), tool.get("description")):
        words += stems_of(text[:_MAX_TEXT]) if isinstance(text, str) else []
    for name, value in properties.items() if is_object(properties) else ():
        words += stems_of(name)
        description = value.get("description") if is_object(value) else None
        words += stems_of(description[:_MAX_TEXT]) if isinstance(description, str) else []
    return " ".join(words)


def stems_of(text: str) -> list[str]:
    """Return the stems of the words of a text that say something."""
    words = [word.lower() for word in _WORD.findall(_HUMPS.sub(" ", text))]
    return [stem(word) for word in words if word not in _NO_CONTENT]


def stem(word: str) -> str:
    """Return a word without its ending, so that `invoices`, `invoice` and `invoicing` are one."""
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST:
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > _LEAST and word.endswith("e"):
        word = word[:-1]
    return word[:-1] if len(word) > _LEAST + 1 and word[-1] == word[-2] and word[-1] not in "sl" else word


_OF_STEM: Final = {stem(word): stem(verb) for verb, words in _VERBS.items() for word in words.split()}
