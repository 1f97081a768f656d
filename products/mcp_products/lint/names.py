"""Names of tools: what hosts refuse of them, by themselves and with what is put around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .findings import Finding, Settings, found
from .snapshot import Snapshot, text_of
from .table import Fact, Level, table

_SIGNS: Final = {".": "a dot", " ": "a space", "/": "a slash", ":": "a colon"}


def check_names(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong with each name by itself."""
    rules = table().rules
    for tool in snapshot.tools:
        name = text_of(tool.get("name"))
        place = f"tools.{name}"
        if facts := tuple(fact for fact in rules["name-characters"].facts if not fact.accepts_text(name)):
            yield found("name-characters", place, f"{name!r} has {_signs(name)}", facts)
        if facts := tuple(fact for fact in rules["name-length"].facts if len(name) > fact.limit):
            least = min(fact.limit for fact in facts)
            yield found("name-length", place, f"{name!r} has {len(name)} characters", facts, limit=least)
        if name and (facts := tuple(fact for fact in rules["name-first-character"].facts if not _begins(fact, name))):
            yield found("name-first-character", place, f"{name!r} begins with {name[0]!r}", facts)
        if facts := tuple(fact for fact in rules["name-separator"].facts if fact.keyword in name):
            longest = max((fact.keyword for fact in facts), key=len)
            yield found("name-separator", place, f"{name!r} contains {longest!r}", facts)


def _begins(fact: Fact, name: str) -> bool:
    # Other characters than the first are the matter of another rule.
    return fact.accepts_text(name[0])


def _signs(name: str) -> str:
    strange = sorted(set(re.findall(r"[^A-Za-z0-9_-]", name)))
    if not strange:
        return "no character"
    return " and ".join(_SIGNS.get(sign, f"the character {sign!a}") for sign in strange[:3])


def check_composed_names(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield names that are too long with the words that hosts put around them."""
    server = re.sub(r"[^A-Za-z0-9_-]", "-", snapshot.name) or "server"
    facts = [fact for fact in table().rules["name-composed-length"].facts if fact.limit]
    for tool in snapshot.tools:
        name = text_of(tool.get("name"))
        composed = {fact: fact.form.format(server=server, tool=name) for fact in facts}
        long = tuple(fact for fact, text in composed.items() if len(text) > fact.limit)
        if not long:
            continue
        worst = max(long, key=lambda fact: len(composed[fact]) - fact.limit)
        hopeless = any(len(fact.form.format(server="s", tool=name)) > fact.limit for fact in long)
        excess = len(composed[worst]) - worst.limit
        yield found(
            "name-composed-length",
            f"tools.{name}",
            f"{composed[worst]} has {len(composed[worst])} characters, limit {worst.limit}"
            + ("" if snapshot.named else f" (the entry is called {server!r} here; --name says how you call it)"),
            long,
            level=None if snapshot.named or hopeless else "warning",
            excess=excess,
        )


def check_twice(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield names that are there twice, or differ in case and separators alone."""
    seen: dict[str, str] = {}
    for tool in snapshot.tools:
        name = text_of(tool.get("name"))
        key = re.sub(r"[^a-z0-9]", "", name.lower()) or name
        if key in seen:
            level: Level | None = None if seen[key] == name else "warning"
            yield found("name-twice", f"tools.{name}", f"{name!r} and {seen[key]!r}", level=level)
        seen.setdefault(key, name)
