"""The clarity report of a revision: what its schema leaves unclear, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..catalog import SchemaCatalog
from ..errors import CodegenError, Finding, is_list, is_object
from ..model.ir import Object, Ref, Revision
from ..model.overlay import OverlayRow
from .values import directions, reachable_types

_WITHOUT_TAG: Final = ("interim",)  # What no tag of schema.ts says.


@dataclass(frozen=True, slots=True)
class OverlayAnswer:
    """A fact that the schema does not state and a row of the overlay does."""

    table: str
    at: str
    use: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClarityReport:
    """The errors that stop the derivation (`findings`), the facts from the overlay (`answers`), the places where
    schema.ts and schema.json differ in an understood way, and the types that are part of no message (`loose`)."""

    revision: str
    findings: Sequence[Finding]
    answers: Sequence[OverlayAnswer] = ()
    contradictions: Sequence[str] = ()
    loose: Sequence[str] = ()


def clarity_report(schemas: SchemaCatalog, revision: str) -> ClarityReport:
    """Return the report of a revision in the folder. Every error of its schema becomes a finding."""
    try:
        schema, _ = schemas.normalized(revision)
        contradictions = list(_contradictions(schema["$defs"], "")) if is_object(schema.get("$defs")) else []
        derived = schemas.revision(revision)
    except CodegenError as error:
        return ClarityReport(revision, error.findings)
    answers = [_answer(row) for row in schemas.overlay.rows if revision in row.used]
    return ClarityReport(revision, (), answers, contradictions, _loose(derived))


def _answer(row: OverlayRow) -> OverlayAnswer:
    use = row.use if isinstance(row.use, str) else json.dumps(row.use)
    return OverlayAnswer(row.table, row.place, use or "nothing", row.reason)


def _contradictions(schema: Any, at: str) -> Iterator[str]:
    """Yield the places where the official schema.json differs from schema.ts."""
    if is_object(schema):
        if "x-official" in schema:
            official = schema["x-official"]
            normalized = {key: value for key, value in schema.items() if key != "x-official"}
            yield (
                f"{at}: schema.ts has {json.dumps(normalized)}, schema.json "
                f"{'has ' + json.dumps(official) if official else 'omits it'}"
            )
        for key, value in schema.items():
            if key != "x-official":
                yield from _contradictions(value, at if key in ("properties", "anyOf") else f"{at}.{key}".strip("."))
    elif is_list(schema):
        for item in schema:
            yield from _contradictions(item, at)


def _loose(revision: Revision) -> list[str]:
    """Return the object types that are part of no message and no error."""
    carried = set[str]().union(*directions(revision).senders.values())
    for type in revision.objects():
        if _is_envelope(type, revision):
            reachable_types(Ref(type.name), revision, carried)
    return [type.name for type in revision.objects() if type.name not in carried]


def _is_envelope(type: Object, revision: Revision) -> bool:
    """Return True for a whole message or a base of one."""
    bases = [revision.types[name] for name in type.extends]
    return type.name.startswith("JSONRPC") or any(
        isinstance(base, Object) and _is_envelope(base, revision) for base in bases
    )


def as_text(report: ClarityReport) -> str:
    """Return the report as lines for a terminal, the findings first."""
    lines = [f"{report.revision}: {_summary(report)}"]
    for finding in report.findings:
        lines.append(f"  {finding.kind} ({finding.rule}) at {finding.at or 'the schema'}: {finding.text}")
        lines += [f"    tried: {attempt}" for attempt in finding.tried]
    lines += [
        f"  from the overlay: {answer.table} of {answer.at}: {answer.use} ({answer.reason})"
        for answer in report.answers
    ]
    lines += [f"  contradictory: {line}" for line in report.contradictions]
    lines += [f"  part of no message: {name}" for name in report.loose]
    return "\n".join(lines) + "\n"


def as_markdown(reports: Sequence[ClarityReport]) -> str:
    """Return a page with all the reports."""
    lines = [
        "# What the schemas leave unclear",
        "",
        (
            "Written by `mcp-codegen clarity --format markdown`; do not edit. Errors that stop the "
            "generator are listed under"
        ),
        "*cannot be derived*; facts from a row of `schema/overlay.toml` are listed with the reason of that row.",
        "Tags in schema.ts can say what these rows say, where it belongs: [generator.md](generator.md#tags).",
        "Those of [tags.toml](upstream/tags.toml) leave no row of the newest version.",
    ]
    for report in reports:
        lines += ["", f"## {report.revision}", "", f"{_summary(report)[0].upper()}{_summary(report)[1:]}.", ""]
        lines += [
            f"* **{finding.kind}** ({finding.rule}) `{finding.at}`: {finding.text}" for finding in report.findings
        ]
        if saved := sum(row.table not in _WITHOUT_TAG for row in report.answers):
            lines += [f"Tags in schema.ts would save {saved} of these {len(report.answers)} rows.", ""]
        if report.answers:
            lines += ["| table | place | value in the overlay | reason |", "|---|---|---|---|"]
            table = ((row.table, f"`{row.at}`", f"`{row.use}`", row.reason) for row in report.answers)
            lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in table]
        if report.contradictions:
            lines += ["", "schema.ts and schema.json differ, and schema.ts is followed:", ""]
            lines += [f"* `{line}`" for line in report.contradictions]
        if report.loose:
            lines += ["", f"Part of no message: {', '.join(f'`{name}`' for name in report.loose)}."]
    return "\n".join(lines) + "\n"


def as_json(reports: Sequence[ClarityReport]) -> str:
    """Return a JSON array with an object for each report; its findings have their kind."""
    document = [
        asdict(report) | {"findings": [asdict(finding) | {"kind": finding.kind} for finding in report.findings]}
        for report in reports
    ]
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _summary(report: ClarityReport) -> str:
    if report.findings:
        return f"cannot be derived, {len(report.findings)} finding{'s' * (len(report.findings) != 1)}"
    return (
        f"everything can be derived; {len(report.answers)} facts from the overlay, "
        f"{len(report.contradictions)} contradictions, {len(report.loose)} types that are part of no message"
    )
