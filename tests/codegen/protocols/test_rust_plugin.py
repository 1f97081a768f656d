"""The plugin for Rust: its types have the verdict of the schema on all test vectors, lose nothing, and compile for the
schemas of other protocols.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.installation.builds import build_once
from support.languages import answers, equal_examples, write_code, write_revisions, wrong_verdicts
from support.project import needs_official

from mcp_generated import REVISIONS

CARGO = """[package]
name = "judge"
version = "1.0.0"
edition = "2021"

[dependencies]
serde_json = { version = "1", features = ["arbitrary_precision"] }

[profile.dev]
debug = false
incremental = false
"""
MAIN = """%(modules)s
use serde_json::{json, Value};
use std::io::BufRead;
use %(newest)s::types::{CallToolResult, ContentBlock, Role, TextContent, Tool, ToolInputSchema};
use %(newest)s::wire::Read;

fn read(revision: &str, name: &str, value: &Value) -> Result<Value, String> {
    match revision {
%(cases)s        _ => panic!("no revision {revision}"),
    }
}

fn main() {
    if std::env::args().nth(1).is_some() {
        return uses();
    }
    for line in std::io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = |name: &str| line[name].as_str().unwrap().to_string();
        match read(&text("revision"), &text("type"), &line["instance"]) {
            Ok(written) => println!("{}", json!({ "written": written })),
            Err(error) => println!("{}", json!({ "error": error })),
        }
    }
}

fn uses() {
    let mut tool = Tool::new("look".to_string(), ToolInputSchema::new());
    tool.title = Some("Look".to_string());
    println!("{}", tool.json());
    let block = r#"{"type": "text", "text": "a", "annotations": {"audience": ["user"]}}"#;
    let result = format!("{{\\"resultType\\": \\"complete\\", \\"content\\": [{block}]}}");
    match &CallToolResult::parse(&result).unwrap().content[0] {
        ContentBlock::TextContent(TextContent { text, annotations: Some(notes), .. }) => {
            println!("{text} {}", notes.audience == Some(vec![Role::User]));
        }
        other => panic!("{other:?} is not text"),
    }
    println!("{}", CallToolResult::parse(&result.replace("\\"a\\"", "5")).unwrap_err());
    let row = %(newest)s::tables::METHODS.iter().find(|row| row.method == "tools/call");
    println!("{}", row.unwrap().result);
}
"""
CASE = """        "{revision}" => {name}::tables::reader(name).unwrap()(value).map_err(|wrong| wrong.to_string()),
"""

NODE = {"$ref": "#/$defs/Node"}
TEXT: dict[str, Any] = {"type": "string"}
ODD: dict[str, Any] = {
    "Node": {
        "type": "object",
        "properties": {"next": NODE, "all": {"type": "array", "items": NODE}, "either": {"$ref": "#/$defs/Either"}},
    },
    "Either": {"anyOf": [NODE, {"type": "array", "items": NODE}]},
    "Words": {
        "type": "object",
        "properties": dict.fromkeys(("type", "self", "fn", "extra", "new", "a-b", "__", "async"), TEXT),
        "required": ["type", "self"],
    },
    "Closed": {
        "type": "object",
        "properties": {"kind": {"const": "it"}, "String": TEXT},
        "required": ["kind"],
        "additionalProperties": False,
    },
    "String": {"enum": ["", "a-b", "a b", "Self", "1st", 'it is "x"\\', "\n", "☃"]},
    "Option": {"type": "string", "minLength": 2, "maxLength": 3},
    "Some": {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 9},
        "minItems": 1,
        "maxItems": 2,
    },
    "Mixed": {
        "type": "object",
        "properties": {"one": {"const": 2}, "two": {"anyOf": [TEXT, {"type": "null"}]}},
        "required": ["one"],
    },
}
# Values of each type, of which jsonschema says if they are valid.
VALUES: dict[str, list[Any]] = {
    "Node": [{}, {"next": {"next": {}, "all": [{}, {"x": 1}]}}, {"all": [{"next": 1}]}, {"either": [{}]},
             {"either": 1}],
    "Words": [{"type": "a", "self": "b", "fn": "c", "extra": "d", "__": "e", "z": [1]}, {}, {"type": "a", "self": 1}],
    "Closed": [{"kind": "it"}, {"kind": "it", "String": "x"}, {"kind": "it", "more": 1}, {"kind": "other"}, {}],
    "String": [*ODD["String"]["enum"], "b", 1],
    "Option": ["a", "☃☃", "abc", "abcd", 12],
    "Some": [[], [1], [9, 5.0], [10], [0], [1.5], [1, 1, 1], [1e0, 20e-1], [90e-2]],
    "Mixed": [{"one": 2.0}, {"one": 2, "two": None}, {"one": None}, {"one": True}, {"one": 3}, {"one": 2, "two": 1}],
}  # fmt: skip


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> list[Path | str]:
    """A program that reads instances with the Rust that the plugin writes of each revision and of another protocol."""
    cargo = shutil.which("cargo")
    if cargo is None or shutil.which("cc") is None:
        pytest.skip("no Rust compiler: `cargo` and `cc` are not both on the PATH")
    folder = tmp_path_factory.mktemp("rust")
    write_revisions("rust.py", folder / "src")
    other = tmp_path_factory.mktemp("odd") / "protocol.toml"
    other.with_name("odd.json").write_text(json.dumps({"$defs": ODD}), encoding="utf-8")
    lines = (
        'name = "Odd"',
        'version = "1"',
        'document = "odd.json"',
        'format = "json-schema"',
        "[sides]",
        'client = "A"',
        'server = "B"',
    )
    other.write_text("\n".join(lines), encoding="utf-8")
    write_code("rust.py", folder / "src" / "odd", "--protocol", other)
    names = {**REVISIONS, "odd": "odd"}
    words = {
        "modules": "".join(f"mod {name};\n" for name in names.values()),
        "cases": "".join(CASE.format(revision=revision, name=name) for revision, name in names.items()),
        "newest": REVISIONS[max(REVISIONS)],
    }
    (folder / "src" / "main.rs").write_text(MAIN % words, encoding="utf-8")
    (folder / "Cargo.toml").write_text(CARGO, encoding="utf-8")
    locked = subprocess.run([cargo, "generate-lockfile", "--offline"], cwd=folder, capture_output=True, text=True)
    if locked.returncode:
        pytest.skip(f"the crate serde_json is not on this machine; `nox -s sdks` loads it: {locked.stderr[-300:]}")
    build = (
        cargo,
        "install",
        "--quiet",
        "--debug",
        "--locked",
        "--offline",
        "--no-track",
        "--path",
        "{source}",
        "--root",
        "{out}",
    )
    return [build_once("plugin-rust", folder, [build], {"CARGO_TARGET_DIR": "{cache}/rust-target"}) / "bin" / "judge"]


@pytest.mark.exhaustive
def test_rust_has_the_verdict_of_the_schema_on_all_vectors_and_writes_what_it_reads(judge: list[Path | str]) -> None:
    assert wrong_verdicts(judge) == []


@pytest.mark.exhaustive
@needs_official
def test_rust_reads_and_writes_the_official_examples(judge: list[Path | str]) -> None:
    assert equal_examples(judge) == 129


@pytest.mark.exhaustive
def test_names_and_forms_of_another_protocol_compile_and_are_read_as_their_schema_says(judge: list[Path | str]) -> None:
    lines = [
        {"revision": "odd", "type": name, "instance": value} for name, values in VALUES.items() for value in values
    ]
    for line, answer in answers(judge, lines):
        schema: Any = {"$ref": f"#/$defs/{line['type']}", "$defs": ODD}
        assert Draft202012Validator(schema).is_valid(line["instance"]) == ("written" in answer), (line, answer)
        assert answer.get("written", line["instance"]) == line["instance"]


@pytest.mark.exhaustive
def test_types_are_made_matched_and_refused_with_the_place(judge: list[Path | str]) -> None:
    made, matched, refused, listed = subprocess.run(
        [*judge, "uses"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert json.loads(made) == {"name": "look", "title": "Look", "inputSchema": {"type": "object"}}
    assert matched == "a true"
    assert refused == ".content[0].text: 5 is not a string"
    assert listed == "CallToolResult"
