"""A plugin of mcp-codegen: Rust types that read strictly and a table of the methods, of the IR on standard input.

mcp-codegen plugin python examples/plugins/rust.py --revision 2026-07-28 --output src/mcp
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path

from reading import COLUMNS, Form, bounds, messages, one_line, revision_of, title, unknown, write

WIRE = Path(__file__).parent / "rust" / "wire.rs"
PLAIN = {"any": "Value", "null": "()", "boolean": "bool", "string": "String", "integer": "Number", "number": "Number"}
KEYWORDS = frozenset(
    "abstract as async await become box break const continue do dyn else enum extern false final fn for gen if impl in "
    "let loop macro match mod move mut override priv pub ref return static struct trait true try type typeof unsafe "
    "unsized use virtual where while yield".split()
)
# Names that the written code uses, and those that no raw identifier may be.
TAKEN = frozenset(
    "Self self super crate String Vec Box Option Some None Ok Err Value Number Map BTreeMap extra new".split()
)
OTHERS = "`extra` has the properties that the schema does not have."


def literal(text: str) -> str:
    """Return a text as a literal of Rust."""
    escaped = re.sub(r'[\\"]', r"\\\g<0>", text)
    return (
        '"'
        + re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", lambda at: f"\\u{{{ord(at[0]):x}}}", escaped)
        + '"'
    )


def identifier(name: str) -> str:
    if name in TAKEN or not name.strip("_"):
        return f"{name}_"
    return f"r#{name}" if name in KEYWORDS else name


def variants(texts: list[str]) -> list[str]:
    """Return the names of variants for texts, such as `ReadOnly` for "read-only", each another one."""
    words = [re.findall(r"[A-Za-z0-9]+", text) for text in texts]
    names = ["".join(word[0].upper() + word[1:] for word in each) or "Empty" for each in words]
    names = [f"N{name}" if name[0].isdigit() or name == "Self" else name for name in names]
    return [name + "_" * names[:number].count(name) for number, name in enumerate(names)]


def comment(text: str, indent: str = "") -> str:
    return f"{indent}/// {one_line(text)}\n" if text.strip() else ""


def is_texts(form: Form) -> bool:
    return form["is"] == "values" and all(isinstance(value, str) for value in form["values"])


def is_constant(field: Form) -> bool:
    return field["required"] and field["type"]["is"] == "values" and len(field["type"]["values"]) == 1


class Emitter:
    """Writes the types of one revision."""

    def __init__(self, types: dict[str, Form]) -> None:
        self.types = types

    def is_enum(self, name: str) -> bool:
        form = self.types[name]
        return form["is"] == "alias" and (form["type"]["is"] == "union" or is_texts(form["type"]))

    def behind(self, form: Form) -> Form:
        """Return a form behind the aliases that are not types of their own in Rust."""
        while form["is"] == "ref" and self.types[form["name"]]["is"] == "alias" and not self.is_enum(form["name"]):
            form = self.types[form["name"]]["type"]
        return form

    @cached_property
    def parts(self) -> dict[str, set[str]]:
        """The types that a value of each type contains, at any depth, without a list or a map between."""
        found = {name: {part for form in self.contained(name) for part in [form["name"]]} for name in self.types}
        for _ in found:
            for names in found.values():
                names.update(*(found[name] for name in tuple(names)))
        return found

    def contained(self, name: str) -> list[Form]:
        form = self.types[name]
        inner = form["type"] if form["is"] == "alias" else form
        direct = [field["type"] for field in inner.get("fields", ())] + inner.get("arms", [])
        return [part for part in map(self.behind, direct) if part["is"] == "ref"]

    def is_boxed(self, form: Form, holder: str) -> bool:
        form = self.behind(form)
        return form["is"] == "ref" and holder in {form["name"], *self.parts[form["name"]]}

    def written(self, form: Form, holder: str = "") -> str:
        """Return the Rust type of a form that a type holds."""
        if holder and self.is_boxed(form, holder):
            return f"Box<{self.written(form)}>"
        match form["is"]:
            case "ref":
                return identifier(form["name"])
            case "plain":
                return PLAIN[form["kind"]]
            case "array":
                return f"Vec<{self.written(form['items'])}>"
            case "map":
                return f"BTreeMap<String, {self.written(form['values'])}>"
            case "values" | "union":
                return "String" if is_texts(form) else "Value"
            case _:
                raise unknown(form)

    def reader(self, form: Form, holder: str = "") -> str:
        """Return the expression of the function that reads a form."""
        if holder and self.is_boxed(form, holder):
            return f"|value: &Value| {self.reader(form)}(value).map(Box::new)"
        form = self.behind(form)
        match form["is"]:
            case "ref":
                return f"{identifier(form['name'])}::read"
            case "plain":
                return within(form, f"wire::{form['kind']}")
            case "array":
                return within(form, f"wire::list({self.reader(form['items'])})")
            case "map":
                return f"wire::map({self.reader(form['values'])})"
            case "values":
                kind = "text" if is_texts(form) else "value"
                return f"wire::{kind}_of({literal(json.dumps(form['values']))})"
            case "union":
                return f"wire::either(&[{', '.join(f'&wire::fits({self.reader(arm)})' for arm in form['arms'])}])"
            case _:
                raise unknown(form)

    def declared(self, form: Form) -> str:
        name, doc = identifier(form["name"]), comment(form["doc"])
        if form["is"] == "object":
            return self.struct(form, name, doc)
        if is_texts(form["type"]):
            return self.texts(form["type"]["values"], name, doc)
        if form["type"]["is"] == "union":
            return self.union(form, name, doc)
        return f"{doc}pub type {name} = {self.written(form['type'])};\n"

    def struct(self, form: Form, name: str, doc: str) -> str:
        constants = [field for field in form["fields"] if is_constant(field)]
        fields = [(identifier(field["name"]), field) for field in form["fields"] if not is_constant(field)]
        kinds = {key: self.written(field["type"], form["name"]) for key, field in fields}
        declared, reads, writes, made, given = "", "", "", "", []
        checks = "".join(f"        {self.read_field(field, form['name'])};\n" for field in constants)
        for field in constants:
            value = literal(json.dumps(field["type"]["values"][0]))
            writes += f"        members.insert({literal(field['wire'])}.to_string(), wire::constant({value}));\n"
        for key, field in fields:
            kind, put = (kinds[key], "put") if field["required"] else (f"Option<{kinds[key]}>", "put_optional")
            declared += f"{comment(field['doc'], '    ')}    pub {key}: {kind},\n"
            reads += f"            {key}: {self.read_field(field, form['name'])},\n"
            writes += f"        wire::{put}(&mut members, {literal(field['wire'])}, &self.{key});\n"
            made += f"{key}, " if field["required"] else f"{key}: None, "
            given += [f"{key}: {kind}"] if field["required"] else []
        if form["closed"]:
            result = f"let read = Self {{\n{reads}        }};\n        members.closed()?;\n        Ok(read)"
        else:
            declared += "    /// The properties that the schema does not have.\n    pub extra: Map<String, Value>,\n"
            result = f"Ok(Self {{\n{reads}            extra: members.extra(),\n        }})"
            made += "extra: Map::new(), "
        start = "Map::new()" if form["closed"] else "self.extra.clone()"
        return f"""{doc}#[derive(Clone, Debug, PartialEq)]
pub struct {name} {{
{declared}}}

impl {name} {{
    /// Make one of what it must have.
    pub fn new({", ".join(given)}) -> Self {{
        Self {{ {made.removesuffix(", ")} }}
    }}
}}

impl Read for {name} {{
    fn read(value: &Value) -> wire::Outcome<Self> {{
        let mut members = wire::Members::of(value)?;
{checks}        {result}
    }}
}}

impl Write for {name} {{
    fn write(&self) -> Value {{
        let mut members = {start};
{writes}        Value::Object(members)
    }}
}}
"""

    def read_field(self, field: Form, holder: str) -> str:
        how = "required" if field["required"] else "optional"
        return f"members.{how}({literal(field['wire'])}, {self.reader(field['type'], holder)})?"

    def texts(self, values: list[str], name: str, doc: str) -> str:
        pairs = list(zip(variants(values), map(literal, values), strict=True))
        declared = "".join(f"    {key},\n" for key, _ in pairs)
        reads = "".join(f"            Some({text}) => Ok(Self::{key}),\n" for key, text in pairs)
        writes = "".join(f"            Self::{key} => Value::from({text}),\n" for key, text in pairs)
        other = f"            _ => Err(wire::not_of({literal(f'one of {json.dumps(values)}')}, value)),\n"
        return enum(f"{doc}#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]", name, declared,
                    f"match value.as_str() {{\n{reads}{other}        }}", writes)  # fmt: skip

    def union(self, form: Form, name: str, doc: str) -> str:
        arms = form["type"]["arms"]
        keys = variants([arm.get("name") or arm.get("kind") or arm["is"] for arm in arms])
        tag = literal(f".{form['type']['tag']}" if form["type"]["tag"] else "")
        pairs = list(zip(keys, arms, strict=True))
        declared = "".join(f"    {key}({self.written(arm, form['name'])}),\n" for key, arm in pairs)
        reads = "".join(
            f"            &|value| ({self.reader(arm, form['name'])})(value).map(Self::{key}),\n" for key, arm in pairs
        )
        writes = "".join(f"            Self::{key}(value) => value.write(),\n" for key in keys)
        return enum(f"{doc}#[derive(Clone, Debug, PartialEq)]", name, declared,
                    f"wire::arm(value, {tag}, &[\n{reads}        ])", writes)  # fmt: skip


def enum(head: str, name: str, declared: str, read: str, writes: str) -> str:
    return f"""{head}
pub enum {name} {{
{declared}}}

impl Read for {name} {{
    fn read(value: &Value) -> wire::Outcome<Self> {{
        {read}
    }}
}}

impl Write for {name} {{
    fn write(&self) -> Value {{
        match self {{
{writes}        }}
    }}
}}
"""


def within(form: Form, reader: str) -> str:
    """Return a reader that checks the bounds of a form."""
    given = bounds(form)
    if not given:
        return reader
    least = next((given[key] for key in given if key.startswith("min")), "f64::NEG_INFINITY")
    most = next((given[key] for key in given if key.startswith("max")), "f64::INFINITY")
    return f"wire::within({least} as f64, {most} as f64, {reader})"


def main() -> None:
    revision = revision_of(__file__)
    types: dict[str, Form] = revision["types"]
    emitter = Emitter(types)
    head = title(revision)
    rows = "".join(
        f"    Method {{ {', '.join(f'{key}: {literal(text)}' for key, text in zip(COLUMNS, row, strict=True))} }},\n"
        for row in messages(revision)
    )
    readers = "".join(
        f"    ({literal(name)}, |value| Ok({emitter.reader({'is': 'ref', 'name': name})}(value)?.write())),\n"
        for name in sorted(types)
    )
    declared = "\n".join(map(emitter.declared, types.values()))
    write(
        {
            "mod.rs": f"{head}\n#![allow(dead_code)]\n\npub mod tables;\npub mod types;\npub mod wire;\n",
            "wire.rs": head + WIRE.read_text(encoding="utf-8"),
            "types.rs": f"""{head}//! The types of the schema. {OTHERS}

#![allow(unused_imports, unused_mut, non_camel_case_types, clippy::large_enum_variant, clippy::too_many_arguments)]

use super::wire::{{self, Read, Write}};
use serde_json::{{Map, Number, Value}};
use std::collections::BTreeMap;

{declared}""",
            "tables.rs": f"""{head}//! A row for each message, and a reader for each type by its name.

#![allow(unused_imports)]

use super::types::*;
use super::wire::{{self, Method, Outcome, Read, Write}};
use serde_json::Value;

pub const REVISION: &str = {literal(revision["id"])};

pub const METHODS: &[Method] = &[
{rows}];

/// Reads a value as a type, strictly, and returns what this type writes.
pub type Reader = fn(&Value) -> Outcome<Value>;

/// Return the reader of a type, if the schema has this type.
pub fn reader(name: &str) -> Option<Reader> {{
    let found = READERS.binary_search_by_key(&name, |row| row.0).ok()?;
    Some(READERS[found].1)
}}

const READERS: &[(&str, Reader)] = &[
{readers}];
""",
        }
    )


if __name__ == "__main__":
    main()
