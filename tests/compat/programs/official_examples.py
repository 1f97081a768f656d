"""Measure how many programs of the official Python SDK run with only their import lines changed, and how many servers
then give the official client the answers that they give on their own SDK.

Run it with a git directory of modelcontextprotocol/python-sdk, which has the tags of its releases:

    MCP_PYTHON_SDK=/path/to/python-sdk.git python tests/compat/programs/official_examples.py [v1 | v2] [name ...]
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from support.official.sources import Program, rewritten, servers, tags, unpack
from support.peers import clean, python_peer
from support.processes import free_port
from support.project import PEER_DRIVERS

Line = Literal["v1", "v2"]
SDKS: Final[dict[Line, str]] = {"v1": "mcp==1.30.0", "v2": "mcp==2.3.0"}
CLIENT: Final = "mcp==2.3.0"  # It has two modes: with a handshake, and without.
MODES: Final = ("legacy", "2026-07-28")
LIMIT: Final = 180.0
ANSWERS: Final = Path(tempfile.gettempdir()) / "official-examples-answers"


class Outcome(NamedTuple):
    """What a program did: whether it runs, whether its answers are the same, and why not."""

    name: str
    runs: bool
    same: bool | None
    """None for a program that is only loaded, and for one that does not run on its own SDK either."""
    reason: str = ""


class Failure(Exception):
    """A program did not start, or did not answer."""


@cache
def folders(line: Line) -> tuple[Path, Path]:
    """Return the programs of the newest release of a line, as they are and with their import lines changed."""
    repository = Path(os.environ["MCP_PYTHON_SDK"])
    tag = tags(repository, line)[-1]
    folder = Path(tempfile.mkdtemp(prefix="official-examples-"))
    original = unpack(repository, tag, folder / "original", "examples", *(["docs_src"] if line == "v2" else []))
    return original, rewritten(original, folder / "rewritten", old=line == "v1")


def measure_servers(line: Line, names: tuple[str, ...] = ()) -> Iterator[Outcome]:
    """Yield the outcome of each server."""
    original, changed = folders(line)
    for program in servers(original):
        if not names or program.name in names:
            yield _measure(program, changed / program.path.relative_to(original), line)


def _measure(program: Program, changed: Path, line: Line) -> Outcome:
    ours = (our_interpreter(), changed)
    reference = _reference(program, line)
    try:
        if reference is None:
            load(*ours)
            return Outcome(program.name, True, None)
        answers = _answers(program, *ours, ",".join(MODES), reference["requests"])
    except Failure as failure:
        return Outcome(program.name, False, None if reference is None else False, str(failure))
    first, again, *modern = reference["answers"]
    differences = list(_differences(reference["requests"], first, again, answers["answers"][0]))
    differences += _differences(reference["requests"], *(modern or (first, again)), answers["answers"][1])
    return Outcome(program.name, True, not differences, "; ".join(dict.fromkeys(differences))[:900])


def _reference(program: Program, line: Line) -> dict[str, Any] | None:
    """Return the requests, and the answers on the SDK itself: in each mode twice, because those that another run
    answers differently, such as the time, are not compared. None if the program is only loaded, or does not run there:
    an excerpt, or one that needs what is not installed."""
    if program.start == "load":
        return None
    cached = ANSWERS / f"{line}-{program.name.replace('/', '.')}.json"
    if not cached.exists():
        modes = "legacy,legacy" if line == "v1" else "legacy,legacy,2026-07-28,2026-07-28"
        try:
            answers = _answers(program, peer_interpreter(SDKS[line]), program.path, modes, None)
        except Failure:
            answers = None
        ANSWERS.mkdir(parents=True, exist_ok=True)
        cached.write_text(json.dumps(answers))
    reference: dict[str, Any] | None = json.loads(cached.read_text())
    return reference


def _differences(requests: list[Any], first: list[Any], again: list[Any], ours: list[Any]) -> Iterator[str]:
    names = [["list", "tools"], ["list", "resources"], ["list", "prompts"], *requests]
    for name, answer, repeated, our_answer in zip(names, first, again, ours, strict=True):
        if answer == repeated and our_answer != answer and not _both_refuse(name, answer, our_answer):
            yield f"{name[0]} {name[1]}: {json.dumps(our_answer)[:160]} instead of {json.dumps(answer)[:160]}"


def _both_refuse(request: list[Any], answer: Any, ours: Any) -> bool:
    """Return True if both refuse invalid arguments: the texts of validators differ."""
    invalid = request[0] == "tool" and "no such argument" in request[2]
    return invalid and all(result.get("isError") or result.get("error") is True for result in (answer, ours))


class Interpreter(NamedTuple):
    """An interpreter, and its environment."""

    python: Path
    env: dict[str, str]


@cache
def our_interpreter() -> Interpreter:
    """Return our interpreter. It also finds what programs import besides the SDK, and we do not use ourselves."""
    folder = Path(tempfile.mkdtemp(prefix="official-examples-packages-"))
    [site] = peer_interpreter(SDKS["v1"]).python.parents[1].glob("lib/*/site-packages")
    for package in ("certifi", "dotenv", "httpcore", "httpx", "multipart", "pydantic_settings", "python_multipart"):
        if (site / package).exists():
            (folder / package).symlink_to(site / package)
    return Interpreter(
        Path(sys.executable), {**clean(), "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(folder)])}
    )


@cache
def peer_interpreter(requirement: str) -> Interpreter:
    return Interpreter(python_peer(requirement), clean())


def load(interpreter: Interpreter, path: Path) -> dict[str, Any]:
    run([*serve_command(interpreter, "load", path)], interpreter.env)
    return {}


def serve_command(interpreter: Interpreter, start: str, path: Path, *arguments: str) -> list[str]:
    return [str(interpreter.python), str(PEER_DRIVERS / "official_examples_serve.py"), start, str(path), *arguments]


def _answers(program: Program, interpreter: Interpreter, path: Path, modes: str, requests: Any) -> dict[str, Any]:
    with (
        _served(program, interpreter, path) as target,
        tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as file,
    ):
        file.write(json.dumps(requests))
        file.flush()
        driver = [str(python_peer(CLIENT)), str(PEER_DRIVERS / "official_examples_query.py"), modes]
        output = run([*driver, "-" if requests is None else file.name, *target], clean())
    answers: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answers


@contextmanager
def _served(program: Program, interpreter: Interpreter, path: Path) -> Iterator[list[str]]:
    """Yield the target of a client: the words of a command, or the URL of a server that runs meanwhile."""
    if program.start != "http":
        environment = [f"{name}={value}" for name, value in interpreter.env.items() if name == "PYTHONPATH"]
        yield ["env", *environment, *serve_command(interpreter, program.start, path)]
        return
    with served_over_http("http", interpreter, path) as url:
        yield [url]


@contextmanager
def served_over_http(start: str, interpreter: Interpreter, path: Path) -> Iterator[str]:
    """Yield the URL of a program that serves over HTTP meanwhile."""
    port = free_port()
    command = serve_command(interpreter, start, path, str(port))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=interpreter.env, stdout=log, stderr=log, text=True)
        try:
            for line in iter(lambda: _written(log, server), ""):
                if "Uvicorn running on" in line or "listening at" in line:
                    break
            else:
                raise Failure(last_line(_text(log)))
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()
            server.wait()


def _written(log: Any, server: subprocess.Popen[str]) -> str:
    """Return what a server has written; wait until it has written something new, or has ended."""
    before = len(_text(log))
    for _ in range(600):
        if len(text := _text(log)) > before or "running on" in text:
            return text
        if server.poll() is not None:
            return ""
        _pause()
    return ""


def _pause() -> None:
    subprocess.run(["sleep", "0.1"], check=True)


def _text(log: Any) -> str:
    log.seek(0)
    return str(log.read())


def run(command: list[str], env: dict[str, str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            process = subprocess.run(
                command, env=env, cwd=folder, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise Failure("no answer in time") from None
    if process.returncode:
        raise Failure(last_line(process.stderr))
    return process.stdout


def last_line(text: str) -> str:
    """Return the line of a traceback that names the error of the innermost program."""
    errors = re.findall(r"^[ |]*((?:\w+\.)*\w*(?:Error|Exception|Exit)\b: .*)", text, re.MULTILINE)
    return str((errors or text.strip().splitlines()[-1:] or ["it ended"])[0])[:300]


def print_table(rows: Iterator[Outcome]) -> None:
    """Print a row for each program, and the sums."""
    outcomes: list[Outcome] = []
    for outcome in rows:
        outcomes.append(outcome)
        same = {True: "same", False: "DIFFERS", None: "-"}[outcome.same]
        print(f"{outcome.name:45} {'runs' if outcome.runs else 'FAILS':6} {same:8} {outcome.reason}", flush=True)
    compared = [outcome for outcome in outcomes if outcome.same is not None]
    print(f"{sum(outcome.runs for outcome in outcomes)} of {len(outcomes)} run")
    print(f"{sum(outcome.same is True for outcome in compared)} of {len(compared)} give the same answers", flush=True)


if __name__ == "__main__":
    lines: list[Line] = [line for line in SDKS if line in sys.argv] or list(SDKS)
    for line in lines:
        print(f"\nservers of {line}")
        print_table(measure_servers(line, tuple(name for name in sys.argv[1:] if name not in SDKS)))
