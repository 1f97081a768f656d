"""`mcp-codegen update` follows a git repository: a draft, a release and their faults, and nothing half-written."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.cli.endings import settle
from support.schemas.histories import FIRST, SECOND, History, grown, places
from support.schemas.invented import message, no_capability, record
from support.schemas.typescript_text import official_files

from mcp_codegen import output
from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.update.preparation import with_stubs

TEXT = {"type": "string"}
Schema = dict[str, Any]


def test_a_draft_without_a_change_writes_nothing(history: History) -> None:
    before = history.contents()
    done = history.update()
    assert (done.exit_code, history.contents()) == (0, before), done.output
    assert "Nothing new" in history.report()


# What a conversion fills in for the result that has another property.
DEFAULTS = """
[[default]]
at = "SearchResult.matches"
use = 0
reason = "a test"

[[default]]
at = "SearchResult.found"
use = ""
reason = "a test"
"""


@pytest.mark.long
def test_a_draft_and_then_its_release_are_imported_generated_and_reported(history: History) -> None:
    changed = grown(limit={"type": "integer", "x-doc": "How many to find at most."})
    changed["$defs"]["SearchResult"]["properties"] = {"matches": {"type": "integer"}}
    changed["$defs"]["SearchResult"]["required"] = ["matches"]
    (history.root / "conversions.toml").write_text(DEFAULTS)
    commit = history.commit(draft=official_files(changed))
    done = history.update()
    assert done.exit_code == 0, done.output
    catalog = SchemaCatalog(history.root)
    assert list(catalog.pins) == [FIRST, "draft"] and catalog.pins["draft"].commit == commit
    types = (history.output / "vdraft" / "types.py").read_text()
    assert '"""How many to find at most. (Text of the specification.)"""' in types
    assert (history.output / "converters" / "v2025_01_01_vdraft.py").is_file()
    assert '"SearchRequestParams.limit" = ""' in (history.root / "docs.toml").read_text()
    report = history.report()
    # A client waits for the field that was removed; a server has to send the one that was added.
    assert re.search(r"\| field-removed-required \| `SearchResult.found` \| breaking \| compatible \|", report)
    assert re.search(r"\| field-added-required \| `SearchResult.matches` \| compatible \| breaking \|", report)
    assert "* `SearchRequestParams.limit`" in report and "| clients | " in report

    history.commit(r2025_06_01=official_files(changed))
    done = history.update()
    assert done.exit_code == 0, done.output
    assert list(SchemaCatalog(history.root).pins) == [FIRST, SECOND]
    assert not (history.output / "vdraft").exists() and (history.output / "v2025_06_01").is_dir()
    assert [path.name for path in (history.output / "converters").glob("v*.py")] == ["v2025_01_01_v2025_06_01.py"]
    words = ["--all", "--schema", str(history.root), "--output", str(history.output), "--check"]
    assert CliRunner().invoke(main, words).exit_code == 0


@pytest.mark.long
def test_a_release_is_imported_beside_an_earlier_draft_that_the_repository_has_no_more(history: History) -> None:
    history.commit(draft=official_files(grown(limit=TEXT)))
    assert history.update().exit_code == 0
    history.commit(draft=None, r2025_06_01=official_files(grown(limit=TEXT, least=TEXT)))
    done = history.update()
    assert done.exit_code == 0, done.output
    assert list(SchemaCatalog(history.root).pins) == [FIRST, "draft", SECOND]
    words = ["--all", "--schema", str(history.root), "--output", str(history.output), "--check"]
    assert CliRunner().invoke(main, words).exit_code == 0


def with_other_names(schema: Schema) -> Schema:
    """The schema with another name for a property of a result, for one that several types have, and for a method."""
    text = json.dumps(schema).replace('"found"', '"matches"').replace('"version"', '"release"')
    renamed: Schema = json.loads(text.replace('"search"', '"find"'))
    return renamed


@pytest.mark.long
def test_a_new_name_is_suggested_as_the_row_to_write_and_is_one_line_of_the_report(history: History) -> None:
    history.commit(draft=official_files(with_other_names(grown())))
    (history.root / "overlay.toml").open("a").write(no_capability("find"))
    done = history.update()
    report = history.report()
    assert "## draft" in report, done.output
    rows = tomllib.loads(report.partition("```toml")[2].partition("```")[0])["rename"]
    named = [(row.get("at") or row.get("method") or row.get("type"), row["use"]) for row in rows]
    assert named == [("search", "find"), ("Implementation.version", "release"), ("SearchResult.found", "matches")]
    for name in ("found", "matches"):
        lines = [line for line in report.splitlines() if re.search(rf"\b{name}\b", line) and line.startswith("|")]
        assert [line for line in lines if "clients" not in line and "servers" not in line] == [
            "| field-renamed | `SearchResult.found` | breaking | breaking | found → matches |"
        ]
    assert "What conversion does not carry" not in report


@pytest.mark.long
def test_a_draft_that_adds_a_type_loses_nothing_that_the_release_has(history: History) -> None:
    changed = grown(limit={"type": "integer"})
    history.commit(draft=official_files(changed))
    history.update()
    carried = history.report().partition("### What conversion does not carry")[2].partition("###")[0]
    assert re.findall(r"^\* `(.*)`$", carried, re.MULTILINE) == ["draft → 2025-01-01: drop SearchRequestParams.limit"]


# Converts a message there and back, with a package in the folder that is given.
CONVERTING = """
import sys
sys.path.insert(0, sys.argv[1])
import bindings
call = ("client_to_server", "search", {"text": "a", "limit": 1})
print(bindings.converter("draft", "2025-01-01").params(*call), bindings.converter("2025-01-01", "draft").params(*call))
"""


@pytest.mark.long
def test_a_package_in_a_new_folder_has_every_revision_and_converts_between_them(
    history: History, tmp_path: Path
) -> None:
    history.commit(draft=official_files(grown(limit={"type": "integer"})))
    history.output = tmp_path / "new" / "bindings"
    done = history.update()
    assert done.exit_code == 0, done.output
    assert "It converts by `v2025_01_01_vdraft`." in history.report()
    command = [sys.executable, "-c", CONVERTING, str(history.output.parent)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout == "{'text': 'a'} {'text': 'a', 'limit': 1}\n", ran.stderr


def unread(schema: Schema) -> dict[str, str]:
    files = official_files(schema)
    return files | {"schema.ts": files["schema.ts"] + "export enum Colour { Red }\n"}


def contradicting(schema: Schema) -> dict[str, str]:
    return official_files(schema) | {"schema.json": json.dumps({"$defs": {}})}


def homeless(schema: Schema) -> dict[str, str]:
    schema["$defs"]["LostRequest"] = message("lost")
    return official_files(schema)


def endless(schema: Schema) -> dict[str, str]:
    schema["$defs"]["Endless"] = record({"inner": {"$ref": "#/$defs/Endless"}}, "inner")
    schema["$defs"]["SearchResult"]["properties"]["endless"] = {"$ref": "#/$defs/Endless"}
    schema["$defs"]["SearchResult"]["required"] = ["endless"]
    return official_files(schema)


@pytest.mark.parametrize(
    ("defect", "rule", "place"),
    [
        (unread, "form", "enum"),
        (contradicting, "agreement", "missing|only in"),
        (homeless, "direction", "LostRequest"),
        (endless, "sample", "Endless"),
    ],
)
def test_a_fault_of_the_draft_is_reported_with_its_place_and_nothing_is_written(
    history: History, defect: Callable[[Schema], dict[str, str]], rule: str, place: str
) -> None:
    before = history.contents()
    history.commit(draft=defect(grown()))
    done = history.update()
    assert (done.exit_code, history.contents()) == (2, before), done.output
    assert re.search(rf"\| {rule} \|.*({place})", history.report()), history.report()
    assert "nothing was written" in done.output


@pytest.mark.edges
@pytest.mark.long
@pytest.mark.parametrize("place", ["try_revision", "generate", "write_folders", "_exchange"])
def test_an_interrupt_leaves_what_was_there(history: History, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    before = history.contents()
    history.commit(draft=official_files(grown(limit=TEXT)))
    module = {"write_folders": "cli.importing", "_exchange": "output"}.get(place, "update.preparation")
    calls: list[int] = []
    exchange = vars(output)["_exchange"]

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        calls.append(1)
        if place == "_exchange" and len(calls) == 1:
            return exchange(*arguments)  # The first of the two folders has changed places.
        raise KeyboardInterrupt

    monkeypatch.setattr(f"mcp_codegen.{module}.{place}", interrupted)
    assert history.update().exit_code == 130 and calls
    assert history.contents() == before


# Runs the command, and waits before the nth call of a function for a signal.
PAUSED = """
import sys
from importlib import import_module
module, name, number = import_module(f"mcp_codegen.{sys.argv[1]}"), sys.argv[2], int(sys.argv[3])
function, calls = getattr(module, name), []
def paused(*arguments, **settings):
    calls.append(1)
    if len(calls) == number:
        print("paused", flush=True)
        sys.stdin.read()
    return function(*arguments, **settings)
setattr(module, name, paused)
import_module("mcp_codegen.cli.main").main(sys.argv[4:])
"""
MOMENTS = [
    *("update.repository.read_snapshot 1", "update.preparation.import_revision 1", "update.preparation.try_revision 1"),
    *("update.preparation.generate 1", "output.write_folders 1", "output._stage 1", "output._stage 2"),
    *("output._exchange 1", "output._exchange 2", "output._write_done 1", "cli.importing.write_files 1"),
]


# By name: Windows has no SIGKILL.
SIGNALS = [(moment, name) for moment in MOMENTS for name in ("SIGINT", "SIGKILL")]
SIGNALS += [(MOMENTS[0], "SIGTERM"), (MOMENTS[2], "SIGTERM")]


@pytest.fixture(scope="module")
def changed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A history whose draft has changed, and what an update that nothing interrupts makes of it."""
    history = places(shutil.copytree(prepared, tmp_path_factory.mktemp("changed") / "history"))
    history.commit(draft=official_files(grown(limit=TEXT)))
    updated = places(shutil.copytree(history.repository.parent, tmp_path_factory.mktemp("updated") / "history"))
    assert updated.update().exit_code == 0
    return history.repository.parent, updated.contents()


@pytest.mark.edges("output._exchange 1-SIGKILL", "update.preparation.generate 1-SIGINT")
@pytest.mark.long
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the processes are seen in /proc")
@pytest.mark.parametrize(("moment", "name"), SIGNALS)
def test_a_signal_at_any_moment_leaves_all_old_files_or_all_new_ones(
    changed: tuple[Path, dict[str, bytes]], tmp_path: Path, moment: str, name: str
) -> None:
    history = places(shutil.copytree(changed[0], tmp_path / "history"))
    before, after = history.contents(), changed[1]
    assert before != after
    place, number = moment.split()
    words = [*place.rpartition(".")[::2], number, *map(str, history.words("--no-type-check"))]
    (temporary := tmp_path / "temporary").mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {**os.environ, "TMPDIR": str(temporary)}}
    with subprocess.Popen([sys.executable, "-c", PAUSED, *words], text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None and "paused\n" in process.stdout
        process.send_signal(signal.Signals[name])
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert name == "SIGKILL" or not [*temporary.iterdir()]
    settle(history.root.parent)
    remaining = history.contents()
    assert remaining == (after if place.endswith("write_files") else before), sorted(remaining.keys() ^ before.keys())


@pytest.mark.long
@pytest.mark.parametrize("form", ["checkout", "bare", "url"])
@pytest.mark.parametrize("ref", ["branch", "tag", "commit"])
def test_a_source_is_a_checkout_a_bare_repository_or_a_url(history: History, form: str, ref: str) -> None:
    commit = history.git("rev-parse", "HEAD")
    history.git("tag", "v1")
    history.git("config", "uploadpack.allowAnySHA1InWant", "true")
    bare = history.repository.parent / "bare.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(history.repository), str(bare)], check=True)
    source = {"checkout": str(history.repository), "bare": str(bare), "url": f"file://{history.repository}"}[form]
    done = history.update("--ref", {"branch": "main", "tag": "v1", "commit": commit}[ref], source=source)
    assert done.exit_code == 0, done.output
    assert commit in history.report()


@pytest.mark.parametrize(
    ("source", "ref", "text"),
    [
        ("https://example.org/x", "--upload-pack=touch x", "is not a name of a tag"),
        ("ext::sh -c true", "main", "is neither a folder nor a URL"),
        ("--upload-pack=x", "main", "is neither a folder nor a URL"),
        (None, "absent", "has no tag, branch or commit 'absent'"),
        ("file:///absent", "main", "check --from and --ref"),
    ],
)
def test_a_source_or_a_ref_that_cannot_be_read_is_refused(
    history: History, source: str | None, ref: str, text: str
) -> None:
    done = history.update("--ref", ref, source=source)
    assert done.exit_code == 2 and text in " ".join(done.output.split()), done.output


def test_a_variable_of_git_does_not_change_the_repository(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", os.devnull)
    assert history.update("--ref", "main").exit_code == 0


@pytest.mark.long
def test_a_release_that_was_corrected_is_named_and_imported_on_request(history: History) -> None:
    history.commit(r2025_01_01=official_files(grown(limit=TEXT)))
    assert history.update().exit_code == 0
    assert "--revision 2025-01-01" in history.report()
    done = history.update("--revision", FIRST)
    assert done.exit_code == 0, done.output
    assert "limit" in (history.output / "v2025_01_01" / "types.py").read_text()
    assert history.update("--revision", "2030-01-01").exit_code == 2


@pytest.mark.long
def test_text_of_a_schema_is_no_markup_in_the_report(history: History) -> None:
    hostile = grown(**{"x": {"const": "<img src=x> @everyone | `"}})
    files = official_files(hostile)
    history.commit(draft=files)
    history.update()
    assert "<img" not in history.report() and "@everyone" not in history.report()


def test_stubs_stand_in_the_order_of_their_keys_and_old_ones_go() -> None:
    text = '# Head\n\n[types]\nAlpha = "One."\nGamma = ""\n\n[properties]\n"A.x" = "X."\n'
    added = with_stubs(text, ["Beta", "Alpha", "A.b", "Zeta"])
    assert added == (
        '# Head\n\n[types]\nAlpha = "One."\nBeta = ""\nZeta = ""\n\n[properties]\n"A.b" = ""\n"A.x" = "X."\n'
    )
    assert with_stubs(added, []) == text.replace('Gamma = ""\n', "")
    assert with_stubs("", ["New"]) == '[types]\nNew = ""\n'
