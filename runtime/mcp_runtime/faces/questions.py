"""What a result asks of the client first goes in; nothing comes out, or a refusal where the client cannot be asked that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import JSONRPCError
from ..lifecycle import (
    MISSING_CAPABILITY_ERROR,
    Capabilities,
    is_declared,
    satisfies,
    capabilities_object,
    parse_capability_path,
)
from ..spec import InputRequest, Revision
from .guards import warn_about_secrets


def check_input_required(revision: Revision, capabilities: Capabilities, result: object) -> None:
    """Raise the JSONRPCError that names what is missing, where an answer asks for what these capabilities do not have
    (2026: basic/patterns/mrtr, Server Requirements). Warns of forms that ask for secrets."""
    asks: Mapping[str, Any] | None = getattr(result, "input_requests", None)
    if not asks:
        return
    for ask in asks.values():
        warn_about_secrets(ask.params)
    rows = {row.method: row for row in revision.rows if isinstance(row, InputRequest)}
    check_input_requests(revision, capabilities, [(rows[ask.method], ask.params) for ask in asks.values()])


def check_input_requests(
    revision: Revision, capabilities: Capabilities, input_requests: Iterable[tuple[InputRequest[Any], object]]
) -> None:
    """The same, for questions that are given with their rows."""
    _raise_missing_capability(
        revision, [each for row, params in input_requests for each in _required_capabilities(row, params, capabilities)]
    )


def require_client_capabilities(revision: Revision, capabilities: Capabilities, required: Iterable[str]) -> None:
    """The same, for capabilities that are needed whatever is asked."""
    _raise_missing_capability(
        revision, [each for each in required if not is_declared(capabilities, parse_capability_path(each)[1])]
    )


def _raise_missing_capability(revision: Revision, required: list[str]) -> None:
    if required:
        what = ", ".join(dict.fromkeys(repr(each) for each in required))
        message = f"this needs {what}, which was not declared ({revision.id})"
        raise JSONRPCError(
            int(revision.constants[MISSING_CAPABILITY_ERROR]),
            message,
            {"requiredCapabilities": capabilities_object(required)},
        )


def _required_capabilities(row: InputRequest[Any], params: object, capabilities: Capabilities) -> Iterator[str]:
    """The capabilities that this question needs and the client has not declared."""
    if not is_declared(capabilities, parse_capability_path(row.capability)[1]):
        yield row.capability
    yield from (
        gate.capability for gate in row.requirements if gate.applies_to(params) and not satisfies(capabilities, gate)
    )
