"""The steps of a conversation go in, and the lines of one side; what the other side sends comes out, and what differs.

Nothing here reads or writes. An id, or a progress token, may be another than the recorded one: what the other side chose
is put wherever the recorded one stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from ..errors import CodegenError
from ..json_types import is_object
from .transcript import Json, Step, bytes_of, difference

Side = Literal["client", "server"]

_SENDS: Final[Mapping[str, frozenset[str]]] = {"client": frozenset({">"}), "server": frozenset({"<", "<~"})}
_KNOWN: Final = frozenset({">", "<", "<~", "close", "exit"})
_RESPONSE: Final = (("id",), ("params", "requestId"))
_NOTIFICATION: Final = (("params", "progressToken"),)


class Replay:
    """One side of a recorded conversation, up to its end."""

    def __init__(self, name: str, steps: Sequence[Step], side: Side) -> None:
        for step in steps:
            if step.verb not in _KNOWN:
                raise CodegenError(
                    f"{name}:{step.line}: {step.verb!r} cannot be replayed, only {', '.join(sorted(_KNOWN))}"
                )
        self._name = name
        self._steps = list(steps)
        self._sends = _SENDS[side]
        self._ids: dict[str, Json] = {}
        self._tokens: dict[str, Json] = {}

    def step(self) -> Step | None:
        """Where it is, or None at the end."""
        return self._steps[0] if self._steps else None

    def to_send(self) -> list[bytes]:
        """The lines that this side sends before it hears anything more."""
        lines: list[bytes] = []
        while self._steps and self._steps[0].verb in self._sends:
            lines.append(self._mine(self._steps.pop(0)))
        return lines

    def receive(self, line: bytes) -> None:
        """Take a line of the other side. Raises CodegenError where it is not what was recorded."""
        waiting = self._group()
        if not waiting:
            raise CodegenError(f"{self._name}: after the last line, {_shown(line)} was said")
        faults: list[str] = []
        for step in waiting:
            fault = self._unlike(step, line)
            if fault is None:
                self._steps.remove(step)
                return
            faults.append(fault)
        raise CodegenError(f"{self._name}:{waiting[0].line}: {faults[0]}; recorded was {waiting[0].text[:200]}")

    def done(self, verb: str) -> str | None:
        """Take a step such as `close`, if it is next: what it says, or None."""
        return self._steps.pop(0).text if self._steps and self._steps[0].verb == verb else None

    def _group(self) -> list[Step]:
        """What may be said next: a line, or any of the lines whose order is free."""
        group: list[Step] = []
        for step in self._steps:
            if step.verb in self._sends or step.verb in ("close", "exit") or (group and step.verb != "<~"):
                break
            group.append(step)
            if step.verb != "<~":
                break
        return group

    def _mine(self, step: Step) -> bytes:
        message = _parsed(bytes_of(step.text))
        if not is_object(message):
            return bytes_of(step.text)
        # An answer has the id that the other side chose, and so has what is told about a request of the other side.
        paths = _RESPONSE if "method" not in message else _RESPONSE[1:]
        changed = [_put(message, path, self._ids) for path in paths]
        changed += [_put(message, path, self._tokens) for path in _NOTIFICATION]
        return (
            json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
            if any(changed)
            else bytes_of(step.text)
        )

    def _unlike(self, step: Step, line: bytes) -> str | None:
        """Where a line differs from the recorded one; where it does not, its ids are kept in mind."""
        expected, received = _parsed(bytes_of(step.text)), _parsed(line)
        if expected is None or not is_object(received) or not is_object(expected):
            same = bytes_of(step.text) == line if expected is None else difference(expected, received) is None
            return None if same else f"{_shown(line)} was said"
        asks = "method" in expected and "id" in expected and "id" in received
        chosen: list[tuple[dict[str, Json], Json, Json]] = []
        if asks:
            chosen.append((self._ids, expected["id"], received["id"]))
            expected["id"] = received["id"]
        meta, theirs = (_inside(each, ("params", "_meta")) for each in (expected, received))
        if meta is not None and theirs is not None and "progressToken" in meta and "progressToken" in theirs:
            chosen.append((self._tokens, meta["progressToken"], theirs["progressToken"]))
            meta["progressToken"] = theirs["progressToken"]
        if "method" in expected:
            _put(expected, ("params", "requestId"), self._ids)
        fault = difference(expected, received)
        if fault is None:
            for known, recorded, actual in chosen:
                known[json.dumps(recorded)] = actual
        return fault


def _put(message: dict[str, Any], path: tuple[str, ...], known: dict[str, Json]) -> bool:
    """Put in what stands for a recorded id; whether anything changed."""
    holder = _inside(message, path[:-1])
    if holder is None or path[-1] not in holder:
        return False
    before = holder[path[-1]]
    holder[path[-1]] = known.get(json.dumps(before), before)
    return holder[path[-1]] is not before


def _inside(message: Json, path: tuple[str, ...]) -> dict[str, Any] | None:
    for key in path:
        message = message.get(key) if is_object(message) else None
    return message if is_object(message) else None


def _parsed(line: bytes) -> Json:
    """The JSON of a line, or None for a line that is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _shown(line: bytes) -> str:
    return line[:200].decode(errors="replace")
