"""Environment variables from the command line, and from files such as `.env`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ...errors import CodegenError

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def variables_of(words: Iterable[str], files: Iterable[Path] = ()) -> dict[str, str]:
    """Return the variables of `NAME=VALUE` words and of files; words override files. Raises CodegenError."""
    variables: dict[str, str] = {}
    for file in files:
        variables |= read_env_file(file)
    return variables | assignments(words, "--env")


def assignments(words: Iterable[str], option: str) -> dict[str, str]:
    """Return the values of `NAME=VALUE` words by name. Raises CodegenError for a word without a name or a sign."""
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not name or not sign:
            raise CodegenError(f"{option} takes NAME=VALUE, not {word!r}")
        values[name] = value
    return values


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file with lines `NAME=VALUE`.

    Comments, `export`, and values in single or double quotes are allowed; nothing is expanded. Raises CodegenError with
    the number of the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CodegenError(f"{path}: cannot be read as a file of variables: {error}") from None
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise CodegenError(f"{path}, line {number}: is not NAME=VALUE")
        variables[match[1]] = _value(match[2], f"{path}, line {number}")
    return variables


def _value(text: str, place: str) -> str:
    quote = text[:1]
    if quote not in ("'", '"') or not quote:
        return re.sub(r"(^|\s+)#.*$", "", text)
    end = re.search(r"(?<!\\)" + quote if quote == '"' else quote, text[1:])
    rest = "" if end is None else text[1 + end.end() :].strip()
    if end is None or (rest and not rest.startswith("#")):
        raise CodegenError(f"{place}: the value has no closing {quote}, or text after it")
    value = text[1 : 1 + end.start()]
    return value if quote == "'" else re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), value)
