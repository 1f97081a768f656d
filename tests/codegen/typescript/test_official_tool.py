"""What is read of TypeScript agrees with what the official tool makes of it, run under Node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.peers import node_peer
from support.project import PEER_DRIVERS

from mcp_codegen.importer.importer import as_official, differences, generic_names, published
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse

TOOL = "typescript-json-schema@0.68.0"  # The version of the specification's package.json.
BASE = "export interface Base { a: string; b?: number }\nexport interface Other { c: boolean }\n"
TEXTS = {
    "properties": "export interface X extends Base { d: string | null; e: 'x' | 'y'; f: (Base | Other)[]; g: object }",
    "omit": "export interface X extends Omit<Base, 'a'> { d: Record<string, string> }",
    "never": "export interface X extends Other { a: string; d: never; e: string | never }",
    "tuple": "export interface X { a: [string]; b: [string, number?]; c: [Base, ...Other[]] }",
    "template": "export interface X { a: `data:${string};base64,${string}`; b: `v${number}.x` }",
    "generic": "export type Many<T> = [T, ...T[]];\nexport type X = Many<Base>;\nexport type Y = Many<string>;",
    "alias": "export type A = { a: string };\nexport interface X { b: A; c: A[] }\nexport type U = A | Other;",
    "loop": "export type A = { a?: A; b?: string };\nexport interface X { b: A }",
    "distributed": "export type U = Base | Other;\nexport type X = U & { d: string };\nexport interface Y { x: X }",
    "nested": "export type U = Other & ({ d: string } | { e: string });\nexport type V = U | Base;",
    "access": "export interface X { a: Base['a']; b: NonNullable<Base['b']> }\nexport type Y = X['a'];",
    "record": "type Meta = Record<string, unknown>;\nexport interface X { a?: Meta; b: Record<string, unknown> }",
    "tags": (
        "export interface X {\n/**\n * @minimum 0\n * @TJS-type number\n */\na: number;\n"
        "/** @format uri */\nb: string;\n}"
    ),
    "values": (
        "export const V = 'v';\nexport type L = 'a' | 'b';\nexport type N = 1 | 2;\nexport type X = L | 'c';\n"
        "export type Y = typeof V | 'b' | Base;\nexport type Z = L | N | true | string[];\n"
        "export interface W { a: L | null; b: L | string; c: true | false; d: 'x' | number; e: N | null;\n"
        "f: L | Base; g: 1 | 2 | string }"
    ),
    "null": "export interface X { a: Base | null; b?: Base | null | undefined; c: (Base | null)[]; d: Base[] | null }",
    "chained": (
        "export type A = { d: string } & { e: string };\nexport type X = A & Other;\n"
        "export interface Y { x: X; y: A & Base & { f: number } }"
    ),
    "keys": "export type K = 'x' | 'y';\nexport interface X { a: Record<K, string>; b?: Record<'z', Base> }",
    "sizes": (
        "export type A = (string | A)[];\nexport interface X { b: []; c?: A;\n/** @examples [1, 2] */\na: number;\n}"
    ),
    "numbers": (
        "export interface X { a: Record<number, string>; b: Record<number, Base | null>;\n"
        "c?: Record<number, unknown>; d: Record<number, string[]>[] }"
    ),
    "titles": (
        "/** @title A type */\nexport interface X {\n/** @title A property\n * @minimum 1 */\na: number;\n"
        "title: string;\n}\n/** @title An alias */\nexport type A = string;\nexport interface Y { a: A; x: X }"
    ),
    "constants": "export const V = '1';\nexport interface X { v: typeof V; n: -32000; t: true }",
}


@pytest.mark.exhaustive
def test_what_is_read_agrees_with_the_official_tool(tmp_path: Path) -> None:
    package = node_peer(TOOL) / "node_modules" / "typescript-json-schema"
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.ts").write_text(BASE + text + "\n", encoding="utf-8")
    command = ["node", str(PEER_DRIVERS / "json_schemas.js"), str(package), str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, capture_output=True, env=dict(os.environ))
    disagreements: dict[str, list[str]] = {}
    for name in TEXTS:
        normalized = normalize(parse((tmp_path / f"{name}.ts").read_text(encoding="utf-8"), name), "one")
        official = published(json.loads((tmp_path / f"{name}.json").read_text()), generic_names(normalized))
        assert len(official) >= 3, name
        if lines := differences(as_official(normalized), official):
            disagreements[name] = lines
    assert disagreements == {}, json.dumps(disagreements)
