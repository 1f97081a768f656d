"""TypeScript is read as TypeScript: a construct is read as the language defines it, or refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT
from support.schemas.text_mutations import changed_text

from mcp_codegen.catalog import Candidate, SchemaCatalog
from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.importer import as_official, differences, generic_names, import_revision, published
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse, syntax_tree
from mcp_codegen.paths import Pins

COUNT = int(os.environ.get("MCP_TEXT_MUTATIONS", "2000"))
BASE = """
export const VERSION = "1";
/** @minimum 0 */
export type Size = number;
export interface Base { a: string; [key: string]: unknown }
export interface Thing extends Omit<Base, "a"> {
  /** @TJS-pattern ^a+$ */
  kind: "thing" | "other";
  version: typeof VERSION;
  parts?: (Thing | Base)[];
  nested: { list: Array<string>; map: Record<string, Size> };
}
export type Either = Thing | (Base & { b?: number });
"""


CONST_AS_A_TYPE = (
    *("const", "const[]", "readonly const[]", "(const)", "const | string", "const & { a: string }", "[const]"),
    *("[a: const]", "[const?]", "const['a']", "Record<string, const>", "{ [key: string]: const }"),
)

# Definitions as the official tool writes them for the declarations below.
TEXT = {"type": "string"}
X = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
XY = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]}
Z = {"type": "object", "properties": {"b": TEXT}, "required": ["b"]}
AB = {"type": "string", "enum": ["a", "b"]}
REF_L = {"$ref": "#/definitions/L"}
NO_ITEMS = {"minItems": 0, "maxItems": 0}
HOLDS = {"type": "object", "required": ["b"]}
OBJECT = {"type": "object"}
REF_A = {"$ref": "#/definitions/A"}
LOOP = {"type": "object", "properties": {"a": REF_A}}
EMPTY = {"type": "object", "properties": {}}
ARMS = [{"$ref": "#/definitions/B"}, {"$ref": "#/definitions/C"}]
DISTRIBUTED = {
    "A": {"anyOf": ARMS},
    "B": EMPTY,
    "C": EMPTY,
    "X": {"anyOf": [{"allOf": [X, arm]} for arm in ARMS]},
}
TUPLE = {"type": "array", "items": [TEXT], "minItems": 1, "additionalItems": {"type": "integer"}}
TEXTS = {"type": "array", "items": TEXT}
GENERIC = {"M": {"type": "array", "items": {"$ref": "#/definitions/T"}}, "T": {}}
RECORD = "Record<string,unknown>"
REF_RECORD = {"$ref": "#/definitions/Record%3Cstring%2Cunknown%3E"}


def defined(text: str) -> dict[str, Any]:
    return dict(normalize(parse(text, "schema.ts"), "one")["$defs"])


@pytest.mark.parametrize(
    ("written", "schema"),
    [
        (r'"a\u{1F600}b"', {"type": "string", "const": "a😀b"}),
        (r'"\ud83d\ude00\x41\n"', {"type": "string", "const": "😀A\n"}),
        (r"'it\'s'", {"type": "string", "const": "it's"}),
        ("0x1F", {"type": "integer", "const": 31}),
        ("-1_000", {"type": "integer", "const": -1000}),
        ("1e3", {"type": "integer", "const": 1000}),
        ("true", {"type": "boolean", "const": True}),
        ("readonly string[]", {"type": "array", "items": {"type": "string"}}),
        ("/* a */ Array</* b */ string>", {"type": "array", "items": {"type": "string"}}),
        ("Date", {"type": "string", "format": "date-time"}),
        ('X["a"]', {"type": "integer"}),
        ('X["b"]["c"]', {"type": "boolean"}),
        ("X & Y & Z", {"allOf": [{"$ref": f"#/$defs/{name}"} for name in "XYZ"]}),
        ("[string]", {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1}),
        ("[a: string, b?: string, ...c: string[]]", {"type": "array", "items": {"type": "string"}, "minItems": 1}),
        ("Many<string>", {"type": "array", "items": {"type": "string"}, "minItems": 1}),
        (
            "[string, number]",
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}
            | {"minItems": 2, "maxItems": 2},
        ),
        ("`v${number}.${string}`", {"type": "string", "pattern": r"^v[0-9]*\..*$"}),
        ('NonNullable<X["b"] | null>["c"]', {"type": "boolean"}),
        ("string | never", {"type": "string"}),
        (
            "Record<string, Record<string, string>>",
            {
                "type": "object",
                "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        ),
    ],
)
def test_a_type_is_read_as_the_language_defines_it(written: str, schema: dict[str, Any]) -> None:
    others = "interface X { a: number; b: { c: boolean } } interface Y {} interface Z {} type Many<I> = [I, ...I[]];"
    read = defined(f"{others} export type T = {written};")["T"]
    assert without_official(read) == schema


def without_official(schema: Any) -> Any:
    """The schema without what the official tool makes of it."""
    if not isinstance(schema, dict):
        return schema
    return {key: without_official(value) for key, value in schema.items() if key != "x-official"}


@pytest.mark.parametrize(
    ("text", "official"),
    [
        ("interface X { a: string; b: never }", {"X": X}),
        ("interface Y { a: string; b: string } interface X extends Y { b: never }", {"Y": XY, "X": X}),
        ("type A = { a: string }; interface X { b: A }", {"A": X, "X": {**HOLDS, "properties": {"b": X}}}),
        ("type A = { a?: A }; interface X { b: A }", {"A": LOOP, "X": {**HOLDS, "properties": {"b": REF_A}}}),
        ("type A = B | C; interface B {} interface C {} type X = { a: string } & A;", DISTRIBUTED),
        ("interface X { b: [string, ...number[]] }", {"X": {**HOLDS, "properties": {"b": TUPLE}}}),
        ("interface X { b: [] }", {"X": {**HOLDS, "properties": {"b": {"type": "array", **NO_ITEMS}}}}),
        ("interface X { b: Record<'a', string> }", {"X": {**HOLDS, "properties": {"b": X}}}),
        ("type L = 'a' | 'b'; type X = L | 'c';", {"L": AB, "X": {"type": "string", "enum": ["a", "b", "c"]}}),
        ("type L = 'a' | 'b'; interface X { b: L | null }", {"L": AB, "X": {**HOLDS, "properties": {"b": REF_L}}}),
        ("const V = 'a'; type X = typeof V | 'b';", {"X": AB}),
        (
            "interface X { /** @default \"a\" */ b: 'a' | 'b' }",
            {"X": {**HOLDS, "properties": {"b": {**AB, "default": "a"}}}},
        ),
        ("type X = 1 | 2; type Y = true | false;", {"X": {"type": "number", "enum": [1, 2]}, "Y": {"type": "boolean"}}),
        ("type X = 1 | 2 | string;", {"X": {"anyOf": [{"type": "number", "enum": [1, 2]}, TEXT]}}),
        ("type A = (string | A)[];", {"A": {"type": "array", "items": {"anyOf": [REF_A, TEXT]}}}),
        (
            "type A = { a: string } & { b: string }; interface B {} type X = A & B;",
            {"A": {"allOf": [X, Z]}, "B": EMPTY, "X": {"allOf": [X, Z, ARMS[0]]}},
        ),
        ("type M<T> = T[]; interface X { b: M<string> }", {**GENERIC, "X": {**HOLDS, "properties": {"b": TEXTS}}}),
        (
            "interface X { b: Record<string, unknown> }",
            {RECORD: OBJECT, "X": {**HOLDS, "properties": {"b": REF_RECORD}}},
        ),
    ],
)
def test_what_is_read_agrees_with_what_the_official_tool_writes(text: str, official: dict[str, Any]) -> None:
    normalized = normalize(parse(text, "schema.ts"), "one")
    assert differences(as_official(normalized), published({"definitions": official}, generic_names(normalized))) == []


@pytest.mark.parametrize(
    ("written", "value"),
    [('"a" as const', "a"), ("`a\\tb`", "a\tb"), ("('x')", "x"), ("-3_2", -32), ("<const>'a'", None)],
)
def test_a_constant_is_read_or_refused(written: str, value: str | None) -> None:
    text = f"export const A = 1, X = {written};"
    if value is None:
        with pytest.raises(CodegenError, match="schema.ts:1: .*is not literal; write"):
            parse(text, "schema.ts")
    else:
        assert normalize(parse(text, "schema.ts"), "one")["x-constants"] == {"A": 1, "X": value}


def test_undefined_beside_another_type_of_an_optional_property_is_nothing() -> None:
    assert defined("interface X { a?: string | undefined }")["X"]["properties"] == {"a": {"type": "string"}}


def test_two_declarations_of_an_interface_are_merged_as_typescript_does() -> None:
    merged = defined("interface X { a: string } interface X { a: string; b?: number }")["X"]
    assert list(merged["properties"]) == ["a", "b"] and merged["required"] == ["a"]


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("type T = [...string];", "a rest element that is not an array"),
        ("type T = 10n;", "a bigint"),
        ("interface X { a: bigint }", "write `number`"),
        ("interface X { a: String }", "write `string`"),
        ("interface X { [key: number]: string }", "an index signature of number"),
        ("interface X extends Record<string, unknown> {}", "write `[key: string]: T` in X"),
        ("interface A { a: string } interface X extends Partial<A> {}", "write the properties in X"),
        ("type A = { a: string }; interface X extends A {}", "declare A as an interface"),
        ("type A<B> = { b: B; a?: A<B[]> }; type Long = A<string>;", "beyond the limit; name the inner ones (in Long)"),
        ("interface X { /** @examples 1 */ a: string }", "@examples"),
        ("type T = number & { a: string };", "an intersection with `number`"),
        ("type T = never[];", "`never`"),
        ("interface X { a: undefined }", "`undefined`"),
        ("type T = `a${X}`;", "a template literal type"),
        ("type A<B> = B; type T = A;", "type parameters"),
        ("type A<B> = A<B[]>; type T = A<string>;", "beyond the limit"),
        ("interface X { a(): void }", "a method"),
        ("interface X { (): void }", "a call signature"),
        ("type T = () => void;", "a function type"),
        ("type T = keyof X;", "`keyof`"),
        ("type T = typeof X;", "`typeof X`"),
        ("type T = typeof X.y;", "`typeof X.y`"),
        ("type T = symbol;", "`symbol`"),
        ("type T = 1.5;", "the literal 1.5"),
        (r'type T = "\ud800";', "half of a surrogate pair"),
        ("export * from './x';", "an export without a declaration"),
        ("import { X } from './x';", "an import"),
        ("export enum E { A }", "an enum"),
        ("export class C {}", "a class"),
        ("export const X = { a: 1 };", "is not literal"),
        ("export const X = `a${1}`;", "has a substitution"),
        ("export let x = 1;", "`let`"),
        ("interface X<T> { a: T }", "a generic interface"),
        ("interface X { a }", "a property without a type"),
        ("interface X { [y]: string }", "a computed name"),
        ("interface X { a: string; a: number }", "the property 'a' twice"),
        ("type X = string; type X = number;", "X is declared again"),
        ("interface A extends B {} interface B extends A {}", "extends itself"),
        ("type A = A | string;", "A circularly references itself"),
        ("type A = B & X; type B = A & X; interface X { x: string }", "A circularly references itself"),
        ("type A = 'a' | B; type B = A | C; type C = 'c';", "A circularly references itself"),
        ("type A = A;", "A circularly references itself"),
        ("interface A {} interface X extends Omit<A, string> {}", "omits what is not a name"),
        ("interface X { /** @minLength x */ a: string }", "@minLength"),
        ("interface X { /** @minLength 1.5 */ a: string }", "@minLength"),
        *((f"type T = {written};", "`const` as a type") for written in CONST_AS_A_TYPE),
        ("type T = " + "(" * 3000 + "string" + ")" * 3000 + ";", "beyond the limit"),
    ],
)
def test_a_construct_outside_of_the_subset_is_refused_in_one_short_line(text: str, construct: str) -> None:
    with pytest.raises(CodegenError) as caught:
        defined(f"// The first line.\n{text}\n")
    message = str(caught.value)
    assert construct in message and len(message) <= 500 and "\n" not in message
    assert message.startswith(("schema.ts:2: ", "schema.ts: ", "one: "))


@pytest.mark.parametrize(
    "place",
    [
        "type T = %s;",
        "export const X = %s;",
        "interface X { %s: string }",
        "interface X { a: { %s?: string } }",
        "interface A { a: string } interface X extends Omit<A, %s> {}",
        "/** @category tools */ interface X { [key: string]: unknown; %s: string }",
    ],
)
@pytest.mark.parametrize("string", [r'"\ud800"', r'"a\udc00-b"', r"'\u{110000}'"])
def test_a_string_that_is_no_text_is_refused_wherever_it_stands(place: str, string: str) -> None:
    with pytest.raises(CodegenError, match=r"schema\.ts:2: .*(surrogate pair|not a Unicode character)"):
        defined(f"// The first line.\n{place % string}\n")


ENDLESS = (
    '*[*/export interface Thing extends B%00ase { "a-b" string |er; n?: number[]; kind: "x"; [key: string]| : '
    "unknowk string]| owk string]| : unknowknown; }\nexpor*/t ce Base {+a}{ _meta?: { [k{ey: string]: unknown } }\nex"
)


UNCLOSED = '{"a":{"a":{"a":{a:{"a"/*:n | nu]aaaaaaaaaaaaaaaaaaaaaaaaace Base{ _meta?: {key: \u2139\u2028stEithe'


@pytest.mark.parametrize(
    "text", [ENDLESS, f"type T = string;\n{ENDLESS}", ENDLESS.replace("kind", "sort"), UNCLOSED, f"{UNCLOSED}\n" * 20]
)
def test_a_text_that_the_parser_would_try_to_mend_for_minutes_is_refused(text: str) -> None:
    with pytest.raises(CodegenError, match=r"schema\.ts:\d+: is not valid TypeScript"):
        defined(text)


@pytest.mark.parametrize(
    "text",
    [
        ";" * 20_000,
        f"type T = {'|'.join('1' * 10_000)};",
        f"type T = {'&'.join('a' * 10_000)};",
        f"type T = {'(' * 500}a{')' * 500};",
        f"type T = [{','.join('a' * 10_000)}];",
        f"interface T {{{'a;' * 10_000}}}",
    ],
    ids=["semicolons", "union", "intersection", "parentheses", "tuple", "properties"],
)
def test_a_text_with_a_token_in_each_byte_is_parsed_to_its_end(text: str) -> None:
    assert syntax_tree(text, "schema.ts").end_byte == len(text)


def read(typescript: str, schema: str, folder: Path) -> str:
    """Read two files the whole way to the method table, and return the message of the refusal; empty without one."""
    (folder / "schema.ts").write_text(typescript, encoding="utf-8", errors="replace")
    (folder / "schema.json").write_text(schema, encoding="utf-8", errors="replace")
    try:
        result = import_revision(folder, "one", "", "0")
        SchemaCatalog(ROOT / "schema", Candidate(result.pins, result.schema)).revision("one")
    except CodegenError as error:
        assert all(len(finding.text) <= 500 for finding in error.findings)
        return str(error)
    return ""


@pytest.mark.long
def test_no_mutation_of_typescript_is_a_traceback_or_a_long_refusal(tmp_path: Path) -> None:
    for seed in range(COUNT):
        text = changed_text(BASE, seed, "ts")
        message = read(text, '{"definitions": {}}', tmp_path)
        assert 0 < len(message) <= 500, (seed, text, message)


@pytest.mark.long
def test_no_mutation_of_a_normalized_schema_is_a_traceback_or_a_long_refusal() -> None:
    base = next(iter(SchemaCatalog(ROOT / "schema").pins))
    text = (ROOT / "schema" / base / "schema.json").read_text(encoding="utf-8")
    refused = 0
    for seed in range(COUNT // 10):
        changed = changed_text(text, seed, "json")
        pins = Pins("one", "", "test", "0", {}, like=base)
        try:
            SchemaCatalog(ROOT / "schema", Candidate(pins, changed.encode(errors="replace").decode())).revision("one")
        except CodegenError as error:
            refused += 1
            assert len(str(error)) <= 500, (seed, str(error))
    assert 0 < refused <= COUNT // 10


@pytest.mark.exhaustive
def test_no_mutation_of_an_official_schema_is_a_traceback_or_a_long_refusal(tmp_path: Path) -> None:
    official = json.dumps({"definitions": {"Base": {"type": "object", "properties": {"a": {"type": "string"}}}}})
    for seed in range(COUNT):
        message = read(BASE, changed_text(official, seed, "json"), tmp_path)
        assert 0 < len(message) <= 500, (seed, message)
