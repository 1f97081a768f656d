"""`mcp-codegen official` writes the types of the official SDK: the same text as in `compat`, and modules around it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.project import ROOT

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.cli.protocols import official_files
from mcp_codegen.model.overlay import Form, Forms
from mcp_codegen.paths import template_folders
from mcp_codegen.render.official_package import package_texts

NAMES = {"v1": "mcp-1.30", "v2": "mcp-types-2.3"}
TYPES = {"v1": Path("types.py"), "v2": Path("mcp_types/_types.py")}
# The bases and the one dict that no type of a schema is: their text stands in the templates.
IN_TEMPLATES = {"MCPModel", "Meta", "PaginatedRequest", "RequestParamsMeta", "WireModel"}

both = pytest.mark.parametrize("form", list(NAMES))


@cache
def files(form: str) -> dict[Path, str]:
    return official_files(SchemaCatalog(ROOT / "schema"), NAMES[form])


@pytest.mark.long
@both
def test_the_types_are_those_of_compat_byte_for_byte(form: str) -> None:
    committed = ROOT / "generated" / "mcp_generated" / "compat" / f"types_{form}.py"
    assert files(form)[TYPES[form]] == committed.read_text(encoding="utf-8")


@both
def test_it_imports_pydantic_and_nothing_else(form: str) -> None:
    for text in files(form).values():
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            packages = {name.partition(".")[0] for name in names} - {*sys.stdlib_module_names}
            assert packages <= {"pydantic", "pydantic_core", "typing_extensions"}


def test_no_class_of_the_protocol_is_written_by_hand() -> None:
    texts = [path.read_text() for path in (ROOT / "templates" / "official").glob("*.jinja2")]
    classes = {name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.M)}
    assert classes == IN_TEMPLATES


def used_rows(forms: Forms) -> list[tuple[str, str, str]]:
    return [(key, table, at) for key, form in forms.forms.items() for table, rows in form.rows.items() for at in rows]


def test_every_row_has_a_reason() -> None:
    forms = SchemaCatalog(ROOT / "schema").forms
    rows = [form.rows[table][at] for key, table, at in used_rows(forms) if (form := forms.forms[key])]
    assert len(rows) > 80
    assert all(len(row.reason) > 10 and row.reason.endswith(".") for row in rows)


@pytest.mark.exhaustive
def test_every_row_is_needed() -> None:
    """Without a row, something else is written, or nothing can be; a row for both forms is needed in one of them."""
    schemas = SchemaCatalog(ROOT / "schema")
    forms = schemas.forms
    before = {key: texts(schemas, form) for key, form in forms.forms.items()}
    needless: dict[tuple[str, str], set[str]] = {}
    for key, table, at in used_rows(forms):
        form = forms.forms[key]
        left = {**form.rows, table: {place: row for place, row in form.rows[table].items() if place != at}}
        if is_same(schemas, form.model_copy(update={"rows": left}), before[key]):
            needless.setdefault((table, at), set()).add(key)
    everywhere = {row for row, keys in needless.items() if all(is_unneeded(forms, row, key, keys) for key in NAMES)}
    assert everywhere == set()


def is_unneeded(forms: Forms, row: tuple[str, str], key: str, keys: set[str]) -> bool:
    table, at = row
    return key in keys or forms.forms[key].row(table, at) is None


def texts(schemas: SchemaCatalog, form: Form) -> dict[Path, str]:
    ids = [id for id in schemas.pins if id <= form.until]
    definitions = {id: [*schemas.normalized(id)[0]["$defs"]] for id in ids}
    return package_texts(list(map(schemas.revision, ids)), form, definitions, template_folders())


def is_same(schemas: SchemaCatalog, form: Form, before: dict[Path, str]) -> bool:
    try:
        return texts(schemas, form) == before
    except (KeyError, AssertionError):
        return False


LOADS = """
import sys
sys.path.insert(0, sys.argv[1])
before = {*sys.modules}
import mcp_types
from mcp_types import methods, version
assert not any(name.startswith(("mcp_runtime", "mcp_generated", "mcp_products")) for name in sys.modules)
print(len(mcp_types.__all__), *version.KNOWN_PROTOCOL_VERSIONS)
tool = {"name": "add", "inputSchema": {"type": "object"}, "acme": 1}
newest = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
for revision, more in (("2025-11-25", {}), ("2026-07-28", newest)):
    result = methods.parse_server_result("tools/list", revision, {"tools": [tool], **more})
    print(type(result).__name__, result.tools[0].input_schema, result.ttl_ms)
    print(methods.serialize_server_result("tools/list", revision, {"tools": [tool], "ttlMs": 5, **more}))
for wrong in ({"tools": 1}, {"tools": [], "resultType": "complete"}):
    try:
        methods.parse_server_result("tools/list", "2026-07-28", wrong)
    except ValueError as error:
        print(error.error_count(), error.title)
"""


@pytest.mark.long
def test_the_package_reads_and_writes_messages_of_each_version(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["official", "--of", NAMES["v2"], "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    read = subprocess.run(
        [sys.executable, "-c", LOADS, tmp_path], check=True, capture_output=True, text=True, timeout=60
    )
    tool = "{'inputSchema': {'type': 'object'}, 'name': 'add'}"
    assert read.stdout.splitlines() == [
        "211 2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28",
        "ListToolsResult {'type': 'object'} 0",
        f"{{'tools': [{tool}]}}",
        "ListToolsResult {'type': 'object'} 5",
        f"{{'cacheScope': 'public', 'resultType': 'complete', 'tools': [{tool}], 'ttlMs': 5}}",
        "4 ListToolsResult",
        "2 ListToolsResult",
    ]


def test_check_writes_nothing_and_says_what_differs(tmp_path: Path) -> None:
    words = ["official", "--of", NAMES["v1"], "--output", str(tmp_path)]
    missing = CliRunner().invoke(main, [*words, "--check"])
    assert missing.exit_code == 1 and "+class Tool(" in missing.output and not list(tmp_path.iterdir())
    assert CliRunner().invoke(main, words).exit_code == 0
    equal = CliRunner().invoke(main, [*words, "--check"])
    assert equal.exit_code == 0 and equal.output == "mcp-1.30: 1 files, all up to date\n"


def test_an_unknown_form_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["official", "--of", "mcp-3.0", "--output", str(tmp_path)])
    assert done.exit_code == 2
    assert "'mcp-3.0' is not a form in official.toml; the forms are mcp-1.30, mcp-types-2.3" in " ".join(
        done.output.split()
    )
