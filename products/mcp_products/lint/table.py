"""The table of rules: rules.toml as objects, which nothing changes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

Level = Literal["error", "warning", "note"]

LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")
_OF_EFFECT: Final[Mapping[str, Level]] = {
    "request-refused": "error",
    "server-dropped": "error",
    "tool-dropped": "error",
    "truncated": "warning",
    "warning": "warning",
    "rewritten": "note",
    "information": "note",
}
EFFECTS: Final = {
    "request-refused": "refuses the request",
    "server-dropped": "drops the server",
    "tool-dropped": "drops the tool",
    "truncated": "cuts it",
    "warning": "warns",
    "rewritten": "rewrites it",
    "information": "accepts it",
}


class UnknownNameError(Exception):
    """There is no rule or host of this name; the message names the nearest."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one host does with what one rule is about."""

    host: str
    effect: str
    year: int
    sure: str = "high"
    level: Level | None = None
    because: str = ""
    limit: int = 0
    older: int = 0
    accepts: str = ""
    form: str = ""
    keyword: str = ""
    scope: str = ""

    def level_for(self, chosen: bool) -> Level:
        """Return how much it counts; a host that the user has chosen counts in full."""
        if self.level is not None and not chosen:
            return self.level
        level = _OF_EFFECT[self.effect]
        return "warning" if level == "error" and self.sure != "high" else level

    def accepts_text(self, text: str) -> bool:
        """Return True if the pattern of this fact matches the whole text."""
        return re.fullmatch(self.accepts, text) is not None

    def __str__(self) -> str:
        because = f", {self.because}" if self.because else ""
        return f"{table().hosts[self.host]} {EFFECTS[self.effect]} ({self.year}{because})"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it finds, why that matters, and what to write instead."""

    code: str
    name: str
    area: str
    level: Level
    text: str
    why: str
    write: str
    owasp: str = ""
    facts: tuple[Fact, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Table:
    """All rules by their name, the titles of hosts, and those of the OWASP MCP Top 10."""

    version: str
    rules: Mapping[str, Rule]
    hosts: Mapping[str, str]
    owasp: Mapping[str, str]

    def rule(self, word: str) -> Rule:
        """Return the rule of a code or a name. Raises UnknownNameError."""
        found = {rule.code.lower(): rule for rule in self.rules.values()} | dict(self.rules)
        if word.lower() not in found:
            nearest = get_close_matches(word.lower(), found, 1)
            raise UnknownNameError(
                f"there is no rule {word!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")
            )
        return found[word.lower()]

    def hosts_of(self, words: tuple[str, ...]) -> frozenset[str]:
        """Return the hosts of words such as `cursor`, or `openai` for all whose name begins so; none for `all`.

        Raises UnknownNameError.
        """
        chosen: set[str] = set()
        for word in words:
            named = {host for host in self.hosts if host == word or host.startswith(f"{word}-")}
            if word != "all" and not named:
                nearest = get_close_matches(word, self.hosts, 1, 0.4)
                hint = f"did you mean {nearest[0]!r}?" if nearest else f"the hosts are {', '.join(self.hosts)}"
                raise UnknownNameError(f"there is no host {word!r}; {hint}")
            chosen |= named
        return frozenset() if "all" in words else frozenset(chosen)


@cache
def table() -> Table:
    """Return the table of this release."""
    text = Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    document: dict[str, Any] = tomllib.loads(text)
    facts = {part["rule"]: tuple(Fact(**row) for row in part["rows"]) for part in document["facts"]}
    rules = {row["name"]: Rule(code, **row, facts=facts.get(code, ())) for code, row in document["rules"].items()}
    return Table(document["version"], rules, document["hosts"], document["owasp"])


@dataclass(frozen=True, slots=True)
class Protocol:
    """The names of methods and of versions, as protocol.toml has them."""

    newest: str
    stateless: str
    structured: str
    opening: str
    opened: str
    discovery: str
    call: str
    ping: str
    lists: Mapping[str, tuple[str, str, str]]


@cache
def protocol() -> Protocol:
    """Return what is said to a server."""
    return Protocol(**tomllib.loads(Path(__file__).with_name("protocol.toml").read_text(encoding="utf-8")))
