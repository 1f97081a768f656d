"""What the generator says when its input is wrong: one sentence, naming the input, the rule and the revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["ambiguous", "contradictory", "missing", "unreadable"]

# What can be unclear about a schema, and what kind of fault of the schema that is.
UNCLEAR: Final[dict[str, Kind]] = {
    "agreement": "contradictory",
    "capability": "missing",
    "direction": "missing",
    "form": "unreadable",
    "http": "missing",
    "interim": "ambiguous",
    "lifecycle": "ambiguous",
    "message": "contradictory",
    "name": "ambiguous",
    "overlay": "contradictory",
    "reference": "missing",
    "result": "missing",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a schema does not say clearly: the rule that could not be followed, where, and what was tried."""

    rule: str
    at: str
    text: str
    tried: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return UNCLEAR.get(self.rule, "unreadable")


class CodegenError(Exception):
    """A fault of the input or of the overlay, told in one line; the command line turns it into exit code 2.

    `findings` has more than one where more than one thing was found to be wrong.
    """

    def __init__(
        self, message: str, *, rule: str = "form", at: str = "", tried: Sequence[str] = (), more: Sequence[Finding] = ()
    ) -> None:
        super().__init__(message + (f" (and {len(more)} more)" if more else ""))
        self.findings: tuple[Finding, ...] = (Finding(rule, at, message, tuple(tried)), *more)


def combine(faults: Sequence[RuleError]) -> RuleError:
    """One error that says the first of these, and holds what all of them found. There has to be one."""
    first, *others = faults
    found, *more = (*first.findings, *(finding for fault in others for finding in fault.findings))
    return RuleError(found.text, rule=found.rule, at=found.at, tried=found.tried, more=more)


class SchemaError(CodegenError):
    """A schema says something the generator cannot read, or two sources disagree."""


class OverlayError(CodegenError):
    """A row of the overlay is unused, unknown or no longer true."""


class RuleError(CodegenError):
    """A result, direction or capability does not follow from the schema and the overlay."""


class OutputError(CodegenError):
    """The output folder cannot be written, or is not ours to overwrite."""
