"""What a result asks of the client first goes in; nothing comes out, or a refusal where the client cannot be asked that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import Refusal
from ..lifecycle import UNDECLARED, Capabilities, declared, passes, required, split
from ..spec import InputRequest, Revision
from .guards import check_harmless


def check_questions(revision: Revision, capabilities: Capabilities, answer: object) -> None:
    """Raise the Refusal that names what is missing, where an answer asks for what these capabilities do not have
    (2026: basic/patterns/mrtr, Server Requirements). Warns of forms that ask for secrets."""
    asks: Mapping[str, Any] | None = getattr(answer, "input_requests", None)
    if not asks:
        return
    for ask in asks.values():
        check_harmless(ask.params)
    rows = {row.method: row for row in revision.rows if isinstance(row, InputRequest)}
    check_asked(revision, capabilities, [(rows[ask.method], ask.params) for ask in asks.values()])


def check_asked(
    revision: Revision, capabilities: Capabilities, asked: Iterable[tuple[InputRequest[Any], object]]
) -> None:
    """The same, for questions that are given with their rows."""
    _refuse(revision, [each for row, params in asked for each in _needed(row, params, capabilities)])


def check_declared(revision: Revision, capabilities: Capabilities, needed: Iterable[str]) -> None:
    """The same, for capabilities that are needed whatever is asked."""
    _refuse(revision, [each for each in needed if not declared(capabilities, split(each)[1])])


def _refuse(revision: Revision, needed: list[str]) -> None:
    if needed:
        what = ", ".join(dict.fromkeys(repr(each) for each in needed))
        message = f"this needs {what}, which was not declared ({revision.id})"
        raise Refusal(int(revision.constants[UNDECLARED]), message, {"requiredCapabilities": required(needed)})


def _needed(row: InputRequest[Any], params: object, capabilities: Capabilities) -> Iterator[str]:
    """The capabilities that this question needs and the client has not declared."""
    if not declared(capabilities, split(row.capability)[1]):
        yield row.capability
    yield from (gate.capability for gate in row.gates if gate.stops(params) and not passes(capabilities, gate))
