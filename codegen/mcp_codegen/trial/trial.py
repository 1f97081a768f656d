"""The trial of a revision: what is generated for it is imported, type-checked, and holds a conversation.

This proves after an import that nothing fails later. Each problem becomes a finding with its place.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ..catalog import SchemaCatalog
from ..errors import CodegenError, Finding
from ..generate import module_texts
from ..model.known_names import check_known_names
from ..paths import data_path
from ..temporary_folder import temporary_folder
from .between import converse_in_pairs
from .plan import PlanMaker
from .programs import last_line, run, run_program
from .remedies import AGAIN, remedy

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
    files = module_texts(schemas, (data_path("templates"),), package, list(schemas.pins))
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
