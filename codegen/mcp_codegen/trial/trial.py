"""The trial of a revision: what is generated for it is imported, type-checked, and holds a conversation.

This proves after an import that nothing fails later. Each problem becomes a finding with its place.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ..catalog import SchemaCatalog
from ..errors import CodegenError, Finding
from ..generate import generate
from ..model.known_names import check_known_names
from ..output import temporary_folder
from ..paths import data_path, source_of
from .plan import PlanMaker

# The programs of a trial: processes that find the generated package and the runtime.

_SECONDS: Final = 300.0  # For a process on a busy machine.


def run_program(name: str, plan: Path, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run a program of this package with a plan; None if it does not end."""
    return run([sys.executable, "-P", "-W", "ignore", str(Path(__file__).with_name(name)), str(plan)], folder)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run a command that finds the package in the folder, and the runtime; None if it does not end."""
    here = Path(__file__).parent
    sources = [str(source_of(package).parent) for package in ("mcp_runtime", "mcp_products")]
    path = os.pathsep.join([str(folder), str(here), *sources, *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "MYPYPATH": os.pathsep.join(sources), "PYTHONUTF8": "1"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None


def last_line(done: subprocess.CompletedProcess[str] | None) -> str:
    """Return the last line that a program wrote, or why there is none."""
    if done is None:
        return "it did not end"
    return ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]


# What to write so that a conversation of a trial goes on, by the text of what stopped it.

AGAIN: Final = "correct the schema there, or try again on a machine that does less"
# The rule that stopped a conversion, in the text of its error: from, to, what it did, and where.
_RULE: Final = re.compile(r"([\w.-]+) → ([\w.-]+): .*?\b(require|refuse|misfit|first|null|few|method) ([\w./*-]+)")
_UNHANDLED: Final = re.compile(r"no method '([\w./-]+)' is served here")
_UNREAD: Final = re.compile(r"the runtime reads '(\w+)'")
_UNFILLED: Final = re.compile(r"([\w./@-]+): Field required")
_REMEDIES: Final = {
    "require": "write a row of [[rename]] or [[default]] for {place} in schema/conversions.toml",
    "method": "write a row of [[rename]] or [[method]] with method = '{place}' in schema/conversions.toml",
}
_REMEDY: Final = "write a row for {place} in schema/conversions.toml"
# What else a text tells, and the sentence about the name in it.
_OTHERS: Final = (
    (_UNHANDLED, _REMEDIES["method"]),
    (
        _UNREAD,
        "write a row of [[rename]] in schema/conversions.toml with the name that {place} has now, or adapt the runtime",
    ),
    (
        _UNFILLED,
        "write a row of [[default]] in schema/overlay.toml with the value of {place}, a row of [[rename]] in "
        "schema/conversions.toml if it is a new name, or adapt the runtime, which sends this",
    ),
)
_ANYTHING: Final = (
    "write a row of [[rename]] in schema/conversions.toml for what has another name now, or adapt the runtime"
)


def rule_of(text: str) -> str:
    """Return the rule of a conversion that a text names, such as `require Tool.risk`; an empty text without one."""
    rule = _RULE.search(text)
    return "" if rule is None else f"{rule[3]} {rule[4]}"


def remedy(text: str) -> str:
    """Return what to write so that a conversation goes on, in a sentence without a full stop."""
    rule = _RULE.search(text)
    if rule is not None:
        return _REMEDIES.get(rule[3], _REMEDY).format(place=rule[4])
    found = ((pattern.search(text), sentence) for pattern, sentence in _OTHERS)
    return next((sentence.format(place=match[1]) for match, sentence in found if match is not None), _ANYTHING)


# The conversations of a trial between revisions: what does not work becomes a finding, which says what to write.

_PAIRS: Final = "pairs.py"


def converse_in_pairs(
    schemas: SchemaCatalog, folder: Path, package: str, has_app: bool, **limits: Any
) -> Iterator[Finding]:
    """Let each revision serve clients of each other one, with a class and with the app, over each transport. Yield a
    finding for each place that does not work; the text names a conversation, and how many others fail like it.

    `limits` may name some `transports`, and the one revision that has to be in each pair, as `only`.
    """
    revisions: dict[str, Any] = {}
    for name in schemas.pins:
        plan = PlanMaker(schemas.revision(name), schemas.normalized(name)[0]).plan()
        revisions[name] = {**plan, "types": {}, "module": schemas.revision(name).module}
    whole = {"package": package, "revisions": revisions, **({"app": package} if has_app else {}), **limits}
    plan_file = folder / "pairs.json"
    plan_file.write_text(json.dumps(whole), encoding="utf-8")
    done = run_program(_PAIRS, plan_file, folder)
    if done is None or done.returncode:
        text = f"the conversations between revisions stopped: {last_line(done)}; {AGAIN}"
        yield Finding("conversation", "pairs", text)
        return
    result = json.loads(done.stdout)
    alike: dict[str, list[dict[str, str]]] = {}
    for problem in result["problems"]:  # One rule that is missing stops many messages of many conversations.
        cause = rule_of(problem["text"]) or f"{problem['at']}: {problem['text']}"
        alike.setdefault(cause, []).append(problem)
    for problems in list(alike.values())[:_MAX_FINDINGS]:
        at, text, cell = problems[0]["at"], problems[0]["text"], problems[0]["cell"]
        cells = len({problem["cell"] for problem in problems})
        others = f" (and {cells - 1} more of {result['cells']} conversations)" if cells > 1 else ""
        yield Finding("conversation", at, f"{at} does not work for {cell}{others}: {text}; {remedy(text)}")


_PACKAGE: Final = "bindings"
_PROGRAM: Final = "conversation.py"
_CONFIGURATION: Final = "[mypy]\nstrict = true\npython_version = 3.11\nno_site_packages = false\n"
_ERROR: Final = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$", re.MULTILINE)
_MAX_FINDINGS: Final = 20  # Findings of one step.


def try_revision(schemas: SchemaCatalog, revision: str, *, type_check: bool = True) -> Sequence[Finding]:
    """Generate, import, type-check and use the bindings of one revision in a temporary folder.

    Types are only checked where mypy is installed. Return a finding for each problem; nothing for a revision that
    works.
    """
    with temporary_folder() as folder:
        try:
            return tuple(_try(schemas, revision, folder, type_check))
        except CodegenError as error:
            return error.findings


def _try(schemas: SchemaCatalog, revision: str, folder: Path, type_check: bool) -> Iterator[Finding]:
    list(schemas.steps)
    package = folder / _PACKAGE
    files = generate(schemas, (data_path("templates"),), package, list(schemas.pins))
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    derived = schemas.revision(revision)
    if by_hand := list(check_known_names(derived, schemas.overlay)):
        yield from by_hand
        return
    maker = PlanMaker(derived, schemas.normalized(revision)[0])
    plan = maker.plan()
    if maker.findings:  # Without samples there is nothing to talk about.
        yield from maker.findings
        return
    own = {schemas.revision(name).module for name in schemas.pins} - {derived.module}
    modules = [path.relative_to(folder) for path in files if path.suffix == ".py"]
    plan |= {
        "package": f"{_PACKAGE}.{derived.module}",
        "modules": [_module(path) for path in modules if path.parts[1] not in own],
    }
    has_app = package / "app.py" in files
    if has_app:
        plan["app"] = _PACKAGE
    findings = list(_converse(folder, plan, revision))
    yield from findings
    if not findings and len(schemas.pins) > 1:
        yield from converse_in_pairs(schemas, folder, _PACKAGE, has_app)
    if type_check and importlib.util.find_spec("mypy") is not None:
        yield from _check_types(folder, revision, derived.module)


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _converse(folder: Path, plan: dict[str, Any], revision: str) -> Iterator[Finding]:
    plan_file = folder / "plan.json"
    plan_file.write_text(json.dumps(plan), encoding="utf-8")
    done = run_program(_PROGRAM, plan_file, folder)
    if done is None or done.returncode:
        text = f"{revision}: the conversation of its bindings stopped: {last_line(done)}; {AGAIN}"
        yield Finding("conversation", revision, text)
        return
    for problem in json.loads(done.stdout)[:_MAX_FINDINGS]:
        text = f"{revision}: {problem['at']} does not work in the generated bindings: {problem['text'].rstrip('.')}"
        text = f"{text}; {remedy(problem['text'])}"
        yield Finding("conversation", problem["at"], text)


def _check_types(folder: Path, revision: str, module: str) -> Iterator[Finding]:
    configuration = folder / "mypy.ini"
    configuration.write_text(_CONFIGURATION, encoding="utf-8")
    # The types of the runtime, which are checked once; in a folder that only this user can write.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-codegen" / "mypy"
    command = ["-m", "mypy", "--config-file", str(configuration), "--cache-dir", str(cache), "--no-error-summary"]
    command += ["--follow-imports", "silent"]  # The other revisions were checked when they were imported.
    done = run([sys.executable, *command, "-p", f"{_PACKAGE}.{module}"], folder)
    if done is None or done.returncode not in (0, 1):
        last = last_line(done)
        yield Finding("types", revision, f"{revision}: mypy could not check its bindings: {last}; pass --no-type-check")
        return
    for match in list(_ERROR.finditer(done.stdout))[:_MAX_FINDINGS]:
        place = f"{Path(match['file']).name}:{match['line']}"
        text = f"{revision}: mypy refuses the generated {place}: {match['text']}"
        yield Finding("types", place, f"{text}; correct the type in the schema, or pass --no-type-check")
