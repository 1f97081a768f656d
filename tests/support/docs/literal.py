"""Pages that are followed word for word in an empty environment, with the wheels of this checkout as the release."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest
from support.docs.console import shows
from support.installation.distributions import built_distributions
from support.installation.environments import create_environment
from support.peers import clean
from support.project import ROOT

_BLOCK: Final = re.compile(r"^(?:<!-- test: (?P<options>.*?) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_FILE: Final = re.compile(r"(?:file=|as `|in `|its `)([\w.]+\.\w+)")
_LIMIT: Final = 300  # Seconds of one command; some install packages.
# A program as it is typed into `python -m asyncio`: with `await` at its top level.
_AWAITING: Final = """import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, {"__name__": "__main__"})
asyncio.run(result) if inspect.iscoroutine(result) else None
"""


class Step(NamedTuple):
    """One block that a reader follows: a file to save, a program to type, or commands, and the output below."""

    kind: str
    text: str
    file: str = ""
    shown: str = ""


def steps_of(page: str) -> Iterator[Step]:
    """Yield what a reader of a page does, in order. The sentence above a file names it, or the comment of the test."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    end = 0
    for number, match in enumerate(found):
        below = found[number + 1] if number + 1 < len(found) else None
        is_output = below is not None and below["kind"] == "text" and not text[match.end() : below.start()].strip()
        shown = below["text"] if is_output and below is not None else ""
        above = text[end : match.start()].strip().rpartition("\n\n")[2]
        named = _FILE.search(match["options"] or "") or (_FILE.search(above) if above.endswith(":") else None)
        kind, end = match["kind"], match.end()
        if kind in ("console", "sh"):
            lines = [line for line in match["text"].splitlines() if kind == "sh" or line.startswith("$ ")]
            yield Step("commands", "\n".join(line.removeprefix("$ ") for line in lines), shown=shown)
        elif kind in ("python", "py", "toml", "text") and named is not None:
            yield Step("file", match["text"], file=named[1])
        elif kind == "python":
            yield Step("program", match["text"], shown=shown)


class Reader:
    """Somebody with a new virtual environment and an empty folder, who follows a page."""

    def __init__(self, factory: pytest.TempPathFactory, instead: Mapping[str, str] | None = None) -> None:
        """`instead` has what stands for words of the page that are not commands, such as an address of an example."""
        wheels = built_distributions(factory)
        home = factory.mktemp("reader")
        self.folder = home / "project"
        self.folder.mkdir()
        self._instead = instead or {}
        self._python = create_environment(home / "env")
        constraint = home / "constraint.txt"
        versions = [wheel.name.split("-")[:2] for wheel in wheels.glob("*.whl")]  # As if they were the release on PyPI.
        constraint.write_text("".join(f"{name}=={version}\n" for name, version in versions))
        env = {name: value for name, value in clean().items() if not name.startswith(("XDG_", "VIRTUAL_ENV"))}
        env["PIP_FIND_LINKS"] = f"{wheels} {env.get('PIP_FIND_LINKS', '')}".strip()
        programs = os.pathsep.join((str(self._python.parent), env["PATH"]))
        self._env = {**env, "HOME": str(home), "PIP_CONSTRAINT": str(constraint), "PATH": programs, "PIP_QUIET": "1"}

    def follow(self, page: str) -> int:
        """Do what a page says, and return how many steps showed what it shows. Fails at the first that does not."""
        compared = 0
        for step in steps_of(page):
            if step.file:
                with (self.folder / step.file).open(
                    "a", encoding="utf-8"
                ) as file:  # What may stand in a file is added.
                    file.write(step.text)
                continue
            output = self._run(step)
            assert "Traceback" not in output, f"{page}: {step.text}\n{output}"
            assert not step.shown or shows(step.shown, output), f"{page}: {step.text}\n{output}"
            compared += bool(step.shown)
        return compared

    def _run(self, step: Step) -> str:
        text = step.text
        for word, real in self._instead.items():
            text = text.replace(word, real)
        if step.kind == "program":
            ast.parse(text)
            return self._output([str(self._python), "-c", _AWAITING], text)
        return "".join(self._output(["bash", "-c", line], "") for line in text.splitlines())

    def _output(self, command: list[str], entered: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._env,
            input=entered,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT,
        )
        # 1: what a checking command has found is what the page shows.
        assert done.returncode in (0, 1), f"{' '.join(command)}: {done.returncode}\n{done.stdout}"
        return done.stdout
