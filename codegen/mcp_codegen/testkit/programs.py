"""The programs of the test kit: mocks, a proxy that records, and a replay, over standard input and output."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from ..errors import CodegenError
from .instances import Json
from .messages import Messages
from .mock import Mock, Verdict, check_all_methods
from .replay import Replay
from .stdio import Lines, Process, end, end_on_sigterm, started, write_line
from .transcript import ANYTHING, Step, read_steps, text_of

_STDIN: Final = 0
_STDOUT: Final = 1


def serve_mock(messages: Messages) -> None:
    """Answer the lines of standard input until it ends."""
    mock = Mock("server", messages)
    lines = Lines(_STDIN)
    while (line := lines.next()) is not None:
        answer = _answer(mock, line)
        if answer is not None and not write_line(_STDOUT, _line(answer)):
            return


def run_mock_client(messages: Messages, command: Sequence[str], timeout: float) -> list[Verdict]:
    """Start a server, ask it everything, and answer what it asks meanwhile."""
    end_on_sigterm()
    mock = Mock("client", messages)
    with started(command) as server:
        lines = Lines(_output(server))
        steps = check_all_methods(messages)
        try:
            message = next(steps)
            while True:
                write_line(_input(server), _line(message))
                answer = _wait(mock, server, lines, message, timeout) if "id" in message else None
                message = steps.send(answer)
        except StopIteration as ended:
            verdicts: list[Verdict] = ended.value
            return verdicts


def record(path: Path, command: Sequence[str]) -> int:
    """Stand between a client, which started this program, and a server; keep what both say. Gives the server's code."""
    end_on_sigterm()
    try:
        target = path.open("w", encoding="utf-8", newline="\n")
    except OSError as fault:
        raise CodegenError(f"{path}: cannot be written: {fault.strerror}") from fault
    with target, started(command) as server:
        log = _Log(target)
        log.write(f"# Recorded from: {' '.join(shlex.join(command).split())}", "")
        threading.Thread(target=_relay_from_server, args=(server, log), daemon=True).start()
        lines = Lines(_output(server))
        while (line := lines.next()) is not None:
            log.write(f"< {text_of(line)}")
            write_line(_STDOUT, line)
        code = end(server)
        log.write(f"exit {code}")
        return code


def replay_as_server(path: Path, timeout: float) -> None:
    """Be the server of a recorded conversation. Raises CodegenError where the client says anything else."""
    replay = Replay(path.name, list(_steps(path)), "server")
    lines = Lines(_STDIN)
    while replay.step() is not None:
        for sent in replay.to_send():
            write_line(_STDOUT, sent)
        if replay.done("close") is not None:
            if (line := lines.next(timeout)) is not None:
                replay.receive(line)
        elif (code := replay.done("exit")) is not None:
            sys.exit(int(code) if code != ANYTHING else 0)
        elif replay.step() is not None:
            _expect(replay, lines, timeout, path)


def replay_as_client(path: Path, command: Sequence[str], timeout: float) -> None:
    """Be the client of a recorded conversation. Raises CodegenError where the server says anything else."""
    end_on_sigterm()
    replay = Replay(path.name, list(_steps(path)), "client")
    with started(command) as server:
        lines = Lines(_output(server))
        while replay.step() is not None:
            for sent in replay.to_send():
                write_line(_input(server), sent)
            if replay.done("close") is not None:
                assert server.stdin is not None
                server.stdin.close()
            elif (code := replay.done("exit")) is not None:
                ended = end(server)
                if code not in (ANYTHING, str(ended)):
                    raise CodegenError(f"{path.name}: the server ended with {ended} instead of {code}")
            elif replay.step() is not None:
                _expect(replay, lines, timeout, path)


class _Log:
    """The file of a recording, which two threads write."""

    def __init__(self, target: IO[str]) -> None:
        self._target = target
        self._lock = threading.Lock()

    def write(self, *lines: str) -> None:
        with self._lock:
            self._target.writelines(f"{line}\n" for line in lines)
            self._target.flush()


def _relay_from_server(server: Process, log: _Log) -> None:
    """From the client to the server, until either ends."""
    lines = Lines(_STDIN)
    with suppress(ValueError):  # The recording may be over by then, and its file closed.
        while (line := lines.next()) is not None:
            log.write(f"> {text_of(line)}")
            if not write_line(_input(server), line):
                return
        log.write("close")
        assert server.stdin is not None
        server.stdin.close()


def _steps(path: Path) -> Iterator[Step]:
    try:
        yield from read_steps(enumerate(path.read_text(encoding="utf-8").split("\n"), start=1), path.name)
    except OSError as fault:
        raise CodegenError(f"{path}: cannot be read: {fault.strerror}") from fault
    except ValueError as fault:
        raise CodegenError(str(fault)) from fault


def _expect(replay: Replay, lines: Lines, timeout: float, path: Path) -> None:
    step = replay.step()
    where = f"{path.name}:{step.line if step else 0}"
    line = lines.next(timeout, f"{where}: the line")
    if line is None:
        raise CodegenError(f"{where}: the other side has ended instead")
    replay.receive(line)


def _wait(mock: Mock, server: Process, lines: Lines, asked: dict[str, Json], timeout: float) -> Json:
    """The answer to a request; what the server asks before that is answered."""
    while (line := lines.next(timeout, f"the answer to {asked['method']!r}")) is not None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise CodegenError(f"the server says what is no JSON: {text_of(line)[:200]}") from None
        if message.get("id") == asked["id"] and "method" not in message:
            return message
        if (answer := mock.answer(message)) is not None:
            write_line(_input(server), _line(answer))
    raise CodegenError(f"the server has ended before it answered {asked['method']!r}")


def _answer(mock: Mock, line: bytes) -> Json | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return mock.refuse(None, "PARSE_ERROR", "this is no JSON")
    return mock.answer(message)


def _line(message: Json) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _input(process: Process) -> int:
    assert process.stdin is not None
    return process.stdin.fileno()


def _output(process: Process) -> int:
    assert process.stdout is not None
    return process.stdout.fileno()
