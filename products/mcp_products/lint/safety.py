"""What makes a definition dangerous: text that people do not see, orders to a model, changes after approval.

Only forms are reported that 920 tools of 35 harmless servers do not have; single words such as "always" or "ignore"
are in many of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Final

from .findings import Finding, Settings, found
from .snapshot import Json, Snapshot, is_list, is_object, text_of

_HIDDEN: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_ALLOWED: Final = re.compile("[\u200c\u200d]")  # Joiners of scripts and emoji, between two other characters.
_ORDERS: Final = {
    "a pseudo tag": re.compile(r"</?\s*(?:important|system|secret|hidden|instructions?)\s*>", re.I),
    "an order to ignore what was said": re.compile(
        r"\b(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:of\s+)?(?:the\s+|your\s+)?(?:previous|prior|above|earlier)"
        r"\s+(?:instructions?|prompts?|messages?|rules?|context)",
        re.I,
    ),
    "an order to hide something from the user": re.compile(
        r"\b(?:do not|don't|never)\s+(?:tell|inform|(?:mention|show|reveal)\s+(?:this|it)\s+to)\s+the\s+user\b",
        re.I,
    ),
    "a gap that hides what follows": re.compile(r"\n{30}|[ \t]{200}"),
    "encoded text": re.compile(r"[A-Za-z0-9+/]{200,}={0,2}"),
}
_PRIVATE: Final = re.compile(
    r"(?<![\w])(?:~/|/home/\w+/)?\.(?:ssh/|aws/credentials|gnupg/|netrc\b)|/etc/(?:passwd|shadow)"
)
_SECRETS: Final = {
    "a key of AWS": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    "a key of OpenAI or Anthropic": re.compile(r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}\b"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a token of Slack": re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{20,}\b"),
}
# Verbs that only change something: one may add numbers, run a query, or set a filter.
_WRITES: Final = frozenset(
    "create delete destroy drop edit modify move overwrite publish purge remove rename send truncate update upload "
    "write".split()
)
_LOOKALIKES: Final = str.maketrans("аеорсухіјѕһԁ01", "aeopcyxijshdol")


def secrets_in(text: str) -> list[str]:
    """Return the kinds of secrets in a text."""
    return [kind for kind, pattern in _SECRETS.items() if pattern.search(text)]


def check_texts(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield hidden characters, orders and secrets in everything that a model may read."""
    texts = [("instructions", snapshot.instructions)] if snapshot.instructions else []
    for place, item in snapshot.items():
        texts += [(f"{place}{path}", text) for path, text in _strings(item)]
    for place, text in texts:
        if signs := _hidden_in(text):
            names = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(signs)[:4])
            yield found("hidden-characters", place, f"the characters {names}")
        for kind, pattern in _ORDERS.items():
            if match := pattern.search(text):
                shown = match[0].strip()[:60]
                yield found("instructions-in-text", place, f"{kind}: {shown!r}" if shown else kind)
        for kind in secrets_in(text):
            yield found("secret-in-text", place, kind)
        if place.endswith(".description") and (match := _PRIVATE.search(text)):
            yield found("private-path", place, f"the path {match[0]!r}")


def _hidden_in(text: str) -> set[str]:
    if text.isascii():
        return set()
    signs = {match[0] for match in _HIDDEN.finditer(text)}
    if signs and all(_ALLOWED.fullmatch(sign) for sign in signs):
        # A joiner between letters that are not ASCII belongs to a script or an emoji.
        return {sign for sign in signs if re.search(rf"[\x00-\x7f]{sign}|{sign}[\x00-\x7f]", text)}
    return signs


def _strings(item: Json) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, object, int]] = [("", item, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if isinstance(value, str):
            yield path, value
        elif depth < 200 and is_object(value):
            waiting += [(f"{path}.{key}", part, depth + 1) for key, part in value.items()]
            if any(not key.isascii() for key in value):
                yield f"{path}", " ".join(value)
        elif depth < 200 and is_list(value):
            waiting += [(f"{path}.{number}", part, depth + 1) for number, part in enumerate(value)]


def check_annotations(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield tools without annotations, and those whose name contradicts them."""
    without: list[str] = []
    for tool in snapshot.tools:
        annotations, name = tool.get("annotations"), text_of(tool.get("name"))
        if not is_object(annotations) or not annotations:
            without.append(f"tools.{name}")
            continue
        words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
        if annotations.get("readOnlyHint") is True and words and words[0] in _WRITES:
            yield found("annotation-contradiction", f"tools.{name}", f"readOnlyHint is true, and it is called {name!r}")
    if without:
        yield found(
            "annotations-missing", without[0], f"{len(without)} of {len(snapshot.tools)} tools", more=tuple(without[1:])
        )


def digest(item: Json) -> str:
    """Return the hash of a definition that a lock holds."""
    return hashlib.sha256(json.dumps(item, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def check_lock(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield definitions that are not those of the lock."""
    if snapshot.lock is None:
        return
    current = {place: digest(item) for place, item in snapshot.items() if place.startswith("tools.")}
    for place, value in current.items():
        if place not in snapshot.lock:
            yield found("definition-changed", place, "it is new")
        elif snapshot.lock[place] != value:
            yield found("definition-changed", place, "it has changed")
    for place in snapshot.lock:
        if place.startswith("tools.") and place not in current:
            yield found("definition-changed", place, "it is gone")


def check_shadows(snapshots: list[Snapshot]) -> Iterator[tuple[Snapshot, Finding]]:
    """Yield tools of several servers whose names are equal, or look equal."""
    owners: dict[str, tuple[Snapshot, str]] = {}
    for snapshot in snapshots:
        for tool in snapshot.tools:
            name = text_of(tool.get("name"))
            key = name.translate(_LOOKALIKES).lower()
            other = owners.setdefault(key, (snapshot, name))
            if other[0] is not snapshot:
                message = f"{name!r} of {snapshot.name}, and {other[1]!r} of {other[0].name}"
                yield snapshot, found("name-shadowed", f"tools.{name}", message)
