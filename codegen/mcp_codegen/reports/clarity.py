"""A revision of a folder of schemas goes in, its spec-clarity report comes out, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..catalog import SchemaCatalog
from ..diff.direction import directions, reachable_types
from ..errors import CodegenError, Finding
from ..json_types import is_list, is_object
from ..model.ir import Object, Ref, Revision
from ..model.overlay import OverlayRow


@dataclass(frozen=True, slots=True)
class Answer:
    """Something that the schema does not say and a row of the overlay does."""

    table: str
    at: str
    use: str
    reason: str


@dataclass(frozen=True, slots=True)
class Clarity:
    """What stops the derivation (`findings`), what the overlay answered, the places where schema.ts and schema.json say
    different things in a way that is understood, and the types that no message carries."""

    revision: str
    findings: Sequence[Finding]
    answers: Sequence[Answer] = ()
    contradictions: Sequence[str] = ()
    loose: Sequence[str] = ()


def clarity_of(schemas: SchemaCatalog, revision: str) -> Clarity:
    """The report of a revision that stands in the folder. Whatever is wrong with its schema is a finding."""
    try:
        edition, _ = schemas.normalized(revision)
        contradictions = list(_contradictions(edition["$defs"], "")) if is_object(edition.get("$defs")) else []
        read = schemas.revision(revision)
    except CodegenError as fault:
        return Clarity(revision, fault.findings)
    answers = [_answer(row) for row in schemas.overlay.rows if revision in row.used]
    return Clarity(revision, (), answers, contradictions, _loose(read))


def _answer(row: OverlayRow) -> Answer:
    use = row.use if isinstance(row.use, str) else json.dumps(row.use)
    return Answer(row.table, row.place, use or "nothing", row.reason)


def _contradictions(schema: Any, at: str) -> Iterator[str]:
    """Where the official schema.json says something else than schema.ts."""
    if is_object(schema):
        if "x-official" in schema:
            said = schema["x-official"]
            ours = {key: value for key, value in schema.items() if key != "x-official"}
            yield f"{at}: schema.ts says {json.dumps(ours)}, schema.json {json.dumps(said) if said else 'leaves it out'}"
        for key, value in schema.items():
            if key != "x-official":
                yield from _contradictions(value, at if key in ("properties", "anyOf") else f"{at}.{key}".strip("."))
    elif is_list(schema):
        for item in schema:
            yield from _contradictions(item, at)


def _loose(revision: Revision) -> list[str]:
    """The object types that stand in no message and no error."""
    carried = set[str]().union(*directions(revision).senders.values())
    for each in revision.objects():
        if _is_envelope(each, revision):
            reachable_types(Ref(each.name), revision, carried)
    return [each.name for each in revision.objects() if each.name not in carried]


def _is_envelope(each: Object, revision: Revision) -> bool:
    """Whether it is a whole message, or what one is made of."""
    above = [revision.types[name] for name in each.extends]
    return each.name.startswith("JSONRPC") or any(
        isinstance(base, Object) and _is_envelope(base, revision) for base in above
    )


def as_text(report: Clarity) -> str:
    """Lines for a terminal: what stops first."""
    lines = [f"{report.revision}: {_summary(report)}"]
    for finding in report.findings:
        lines.append(f"  {finding.kind} ({finding.rule}) at {finding.at or 'the schema'}: {finding.text}")
        lines += [f"    tried: {tried}" for tried in finding.tried]
    lines += [
        f"  answered by the overlay: {each.table} of {each.at}: {each.use} ({each.reason})" for each in report.answers
    ]
    lines += [f"  contradictory: {each}" for each in report.contradictions]
    lines += [f"  carried by no message: {each}" for each in report.loose]
    return "\n".join(lines) + "\n"


def as_markdown(reports: Sequence[Clarity]) -> str:
    """A page with all the reports."""
    lines = [
        "# What the schemas leave unclear",
        "",
        "Written by `mcp-codegen clarity --format markdown`; do not edit. What stops the generator would stand under",
        "*cannot be derived*; what a row of `schema/overlay.toml` answers says so, with its reason.",
    ]
    for report in reports:
        lines += ["", f"## {report.revision}", "", f"{_summary(report)[0].upper()}{_summary(report)[1:]}.", ""]
        lines += [f"* **{each.kind}** ({each.rule}) `{each.at}`: {each.text}" for each in report.findings]
        if report.answers:
            lines += ["| what | where | answer of the overlay | reason |", "|---|---|---|---|"]
            rows = ((each.table, f"`{each.at}`", f"`{each.use}`", each.reason) for each in report.answers)
            lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        if report.contradictions:
            lines += ["", "schema.ts and schema.json say different things, and schema.ts is believed:", ""]
            lines += [f"* `{each}`" for each in report.contradictions]
        if report.loose:
            lines += ["", f"Carried by no message: {', '.join(f'`{each}`' for each in report.loose)}."]
    return "\n".join(lines) + "\n"


def as_json(reports: Sequence[Clarity]) -> str:
    """A list with an object for each report, its findings with their kind."""
    whole = [
        asdict(report) | {"findings": [asdict(each) | {"kind": each.kind} for each in report.findings]}
        for report in reports
    ]
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _summary(report: Clarity) -> str:
    if report.findings:
        return f"cannot be derived, {len(report.findings)} finding{'s' * (len(report.findings) != 1)}"
    return (
        f"everything can be derived; {len(report.answers)} answers of the overlay, "
        f"{len(report.contradictions)} contradictions, {len(report.loose)} types that no message carries"
    )
