"""A text of TypeScript or JSON and a seed go in, a text with a few changes comes out."""

from __future__ import annotations

import re
from random import Random

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_$][\w$]*|\d+|[^\s\w]|\s+')
_TYPESCRIPT = (
    *(
        "string",
        "number",
        "never",
        "undefined",
        "bigint",
        "symbol",
        "Date",
        "null",
        "true",
        "-1",
        "1.5",
        "1_000",
        "0x1F",
    ),
    *(
        '"\\u{1F600}"',
        '"\\ud800"',
        "`text`",
        "`a${b}`",
        "10n",
        "[string, number]",
        "[A, ...B[]]",
        'X["params"]',
        "keyof X",
    ),
    *("number & { a: 1 }", "A & B & C", "A & (B | C)", "Record<string, never>", "Record<string, Record<string, A>>"),
    *("typeof X", "typeof import('x')", "() => void", "readonly string[]", "Omit<A, B>", "Partial<A>", "{ a(): void }"),
    *("export * from 'x';", "enum E { A }", "class C {}", "let x = 1;", "const a = {} as const;", "/** @minimum x */"),
    *(
        "/** @default [1 */",
        "/** @TJS-pattern ( */",
        "interface A extends A {}",
        "type T = T;",
        "<T>",
        "[key: string]: any",
    ),
)
_JSON = (
    "null",
    "true",
    "[]",
    "{}",
    "-1",
    "1e999",
    '"$ref"',
    '"#/$defs/X"',
    '"not"',
    '"oneOf"',
    "NaN",
    "[[",
    '"\\ud800"',
)


def changed_text(text: str, seed: int, kind: str) -> str:
    """Return the text with one to four tokens removed, doubled, exchanged or replaced; `kind` is "ts" or "json"."""
    random = Random(seed)
    tokens = _TOKEN.findall(text)
    insertions = _TYPESCRIPT if kind == "ts" else _JSON
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(tokens))
        match random.randrange(5):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                other = random.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = random.choice(insertions)
            case _:
                tokens.insert(at, f" {random.choice(insertions)} ")
    return "".join(tokens)
