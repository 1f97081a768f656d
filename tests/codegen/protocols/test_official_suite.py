"""Generated types accept and refuse what the official JSON-Schema-Test-Suite says, but for the reasons listed here."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError
from support.peers import PEERS, locked

from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.protocols.json_schema import read_json_schema
from mcp_runtime.protocol.models import validator

SUITE = "jsonschema==4.25.1"  # Its source distribution has the suite.
DIALECTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
LITERALS = ("enum", "const", "default", "examples")
RECORD = "an object with `properties` is an object, also without `type`"
NUMBERS = "a value of `enum` or `const` that is an integer is written as one: 1.0 is not read as 1"
REFUSALS = (
    "has $dynamic",
    "has $id inside of the document",
    "has $vocabulary",
    "does not refer to a definition of this document",
)
AGREE = {"draft7": 842, "draft2020-12": 1125}  # Values; a change that loses some is seen.
LISTED_FILES = {"additionalProperties", "properties", "ref", "required", "vocabulary"}
SIDES = {"client": "Client", "server": "Server"}


@pytest.fixture(scope="module")
def suite() -> Path:
    """Return the folder of the suite, which comes from the package index."""
    folder = PEERS / "json-schema-test-suite"
    with locked(folder):
        if not (folder / "tests").is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            command = [
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                "jsonschema",
                SUITE,
                "-d",
                str(folder),
            ]
            done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300)
            if done.returncode:
                pytest.skip(f"the source of {SUITE} cannot be downloaded: {done.stderr.strip()[-200:]}")
            [archive] = folder.glob("*.tar.gz")
            with tarfile.open(archive) as files:
                for member in files.getmembers():
                    name = member.name.partition("/json/")[2]
                    if member.isfile() and name.startswith("tests/draft"):
                        file = folder / name
                        file.parent.mkdir(parents=True, exist_ok=True)
                        content = files.extractfile(member)
                        assert content is not None
                        file.write_bytes(content.read())
    return folder / "tests"


def moved(schema: Any, place: str) -> Any:
    """Return the schema of a group with its references to itself at another place."""
    if isinstance(schema, list):
        return [moved(item, place) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            result[key] = f"{place}{value[1:]}"
        elif key != "$schema":
            result[key] = value if key in LITERALS else moved(value, place)
    return result


def groups(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            yield file.stem, group


def has_untyped_properties(schema: Any) -> bool:
    """Return True if a part of a schema has `properties` without saying that it is an object."""
    if isinstance(schema, list):
        return any(map(has_untyped_properties, schema))
    if not isinstance(schema, dict):
        return False
    return ("properties" in schema and "type" not in schema) or any(map(has_untyped_properties, schema.values()))


def reason_of(schema: Any, data: Any) -> str:
    """Return why the verdict about a value may differ; empty if it may not."""
    if has_untyped_properties(schema):
        return RECORD
    return NUMBERS if isinstance(schema, dict) and schema.keys() & {"enum", "const"} and isinstance(data, float) else ""


@pytest.mark.long
@pytest.mark.deadline(600)
@pytest.mark.parametrize("draft", DIALECTS)
def test_verdicts_agree_with_the_official_suite(draft: str, suite: Path, tmp_path: Path) -> None:
    place, definitions = ("$defs" if draft != "draft7" else "definitions"), dict[str, Any]()
    accepted: dict[str, tuple[str, dict[str, Any]]] = {}
    refused: dict[str, str] = {}
    for number, (file, group) in enumerate(groups(suite / draft)):
        name = f"G{number}"
        schema = moved(group["schema"], f"#/{place}/{name}")
        try:
            read_json_schema({"$schema": DIALECTS[draft], place: {name: schema}}, "Suite", SIDES)
        except CodegenError as error:
            refused[f"{file}: {group['description']}"] = str(error)
            continue
        definitions[name] = schema
        accepted[name] = (file, group)
    (tmp_path / "suite.json").write_text(json.dumps({"$schema": DIALECTS[draft], place: definitions}))
    manifest = tmp_path / "protocol.toml"
    manifest.write_text('name = "Suite"\nversion = "1"\ndocument = "suite.json"\nformat = "json-schema"\n')
    package = f"suite_{draft.replace('-', '_')}"
    result = CliRunner().invoke(main, ["protocol", str(manifest), "--output", str(tmp_path / package)])
    assert result.exit_code == 0, result.output
    sys.path.insert(0, str(tmp_path))
    types = importlib.import_module(package).types
    sys.path.remove(str(tmp_path))
    agreed, listed, wrong = 0, list[str](), list[str]()
    for name, (file, group) in accepted.items():
        validate = validator(getattr(types, name))
        for case in group["tests"]:
            try:
                validate(case["data"])
                verdict = True
            except ValidationError:
                verdict = False
            if verdict is case["valid"]:
                agreed += 1
                continue
            reason = reason_of(group["schema"], case["data"])
            (listed if reason else wrong).append(f"{file}: {group['description']}: {case['description']}: {verdict}")
    assert wrong == []
    assert {reason.split(": ")[0] for reason in listed} <= LISTED_FILES
    assert agreed >= AGREE[draft]
    assert [text for text in refused.values() if not any(known in text for known in REFUSALS)] == []
