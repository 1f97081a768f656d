"""The programs of the test kit: mocks, a recording proxy, and a replay, over standard input and output."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from ..errors import CodegenError, Json
from ..output import open_private, without_secrets
from .messages import MessageFactory
from .peers import ANYTHING, Mock, Replay, TranscriptStep, Verdict, check_all_methods, read_steps, text_of
from .processes import (
    EXIT_TIMEOUT,
    LineReader,
    Process,
    end_on_sigterm,
    joined_command,
    start_process,
    stop_process,
    write_line,
)

_STDIN: Final = 0
_STDOUT: Final = 1


def serve_mock(messages: MessageFactory) -> None:
    """Answer the lines of standard input until it ends."""
    mock = Mock("server", messages)
    lines = LineReader(_STDIN)
    while (line := lines.next()) is not None:
        response = _answer(mock, line)
        if response is not None and not write_line(_STDOUT, _line(response)):
            return


def run_mock_client(messages: MessageFactory, command: Sequence[str], timeout: float) -> list[Verdict]:
    """Start a server, send it every request, and answer the requests that it sends."""
    end_on_sigterm()
    mock = Mock("client", messages)
    with start_process(command) as server:
        lines = LineReader(_output(server))
        checks = check_all_methods(messages)
        try:
            message = next(checks)
            while True:
                write_line(_input(server), _line(message))
                response = _wait(mock, server, lines, message, timeout) if "id" in message else None
                message = checks.send(response)
        except StopIteration as stop:
            verdicts: list[Verdict] = stop.value
            return verdicts


def record(path: Path, command: Sequence[str]) -> int:
    """Relay between the client that started this program and a server, and record the lines of both in a file that only
    its owner can read. Return the exit code of the server."""
    end_on_sigterm()
    try:
        target = os.fdopen(open_private(path), "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise CodegenError(f"{path}: cannot be written: {error.strerror}; choose another FILE") from error
    with target, start_process(command) as server:
        log = _Log(target)
        log.write(f"# Recorded from: {without_secrets(' '.join(joined_command(command).split()))}", "")
        threading.Thread(target=_relay_from_server, args=(server, log), daemon=True).start()
        lines = LineReader(_output(server))
        while (line := lines.next()) is not None:
            log.write(f"< {text_of(line)}")
            write_line(_STDOUT, line)
        code = stop_process(server)
        log.write(f"exit {code}")
        return code


def replay_as_server(path: Path, timeout: float) -> None:
    """Act as the server of a recorded connection. Raises CodegenError if the client sends anything else."""
    replay = Replay(path.name, list(_steps(path)), "server")
    lines = LineReader(_STDIN)
    while replay.current_step() is not None:
        for sent in replay.to_send():
            write_line(_STDOUT, sent)
        if replay.take("close") is not None:
            if (line := lines.next(timeout)) is not None:
                replay.receive(line)
        elif (code := replay.take("exit")) is not None:
            sys.exit(int(code) if code != ANYTHING else 0)
        elif replay.current_step() is not None:
            _expect(replay, lines, timeout, path)


def replay_as_client(path: Path, command: Sequence[str], timeout: float) -> None:
    """Act as the client of a recorded connection. Raises CodegenError if the server sends anything else."""
    end_on_sigterm()
    replay = Replay(path.name, list(_steps(path)), "client")
    with start_process(command) as server:
        lines = LineReader(_output(server))
        while replay.current_step() is not None:
            for sent in replay.to_send():
                write_line(_input(server), sent)
            if replay.take("close") is not None:
                assert server.stdin is not None
                server.stdin.close()
            elif (code := replay.take("exit")) is not None:
                surplus = _surplus(server, lines)
                exit_code = stop_process(server)
                if surplus is not None:
                    raise CodegenError(f"{path.name}: the server says more than was recorded: {text_of(surplus)[:200]}")
                if code not in (ANYTHING, str(exit_code)):
                    raise CodegenError(f"{path.name}: the server exited with code {exit_code}, recorded was {code}")
            elif replay.current_step() is not None:
                _expect(replay, lines, timeout, path)


class _Log:
    """The file of a recording, which two threads write to."""

    def __init__(self, target: IO[str]) -> None:
        self._target = target
        self._lock = threading.Lock()

    def write(self, *lines: str) -> None:
        with self._lock:
            self._target.writelines(f"{line}\n" for line in lines)
            self._target.flush()


def _relay_from_server(server: Process, log: _Log) -> None:
    """Relay lines from the client to the server, until either ends."""
    lines = LineReader(_STDIN)
    with suppress(ValueError):  # The recording may have ended and its file be closed.
        while (line := lines.next()) is not None:
            log.write(f"> {text_of(line)}")
            if not write_line(_input(server), line):
                return
        log.write("close")
        assert server.stdin is not None
        server.stdin.close()


def _steps(path: Path) -> Iterator[TranscriptStep]:
    try:
        yield from read_steps(enumerate(path.read_text(encoding="utf-8").split("\n"), start=1), path.name)
    except OSError as error:
        raise CodegenError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CodegenError(f"{path}: is not text in UTF-8: {error}") from error
    except ValueError as error:
        raise CodegenError(str(error)) from error


def _expect(replay: Replay, lines: LineReader, timeout: float, path: Path) -> None:
    step = replay.current_step()
    where = f"{path.name}:{step.line if step else 0}"
    line = lines.next(timeout, f"{where}: the line")
    if line is None:
        raise CodegenError(f"{where}: the other side closed the connection instead of sending this line")
    replay.receive(line)


def _surplus(server: Process, lines: LineReader) -> bytes | None:
    """Return what a server says after all that was recorded, until it ends."""
    assert server.stdin is not None
    with suppress(OSError):
        server.stdin.close()
    with suppress(CodegenError):  # One that goes on is ended afterwards.
        return lines.next(EXIT_TIMEOUT)
    return None


def _wait(mock: Mock, server: Process, lines: LineReader, request: dict[str, Json], timeout: float) -> Json:
    """Return the response to a request. Requests of the server in the meantime are answered."""
    while (line := lines.next(timeout, f"the response to {request['method']!r}")) is not None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise CodegenError(f"the server sent a line that is not JSON: {text_of(line)[:200]}") from None
        if message.get("id") == request["id"] and "method" not in message:
            return message
        if (response := mock.respond(message)) is not None:
            write_line(_input(server), _line(response))
    raise CodegenError(f"the server exited before it answered {request['method']!r}")


def _answer(mock: Mock, line: bytes) -> Json | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return mock.error_response(None, "PARSE_ERROR", "not JSON")
    return mock.respond(message)


def _line(message: Json) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _input(process: Process) -> int:
    assert process.stdin is not None
    return process.stdin.fileno()


def _output(process: Process) -> int:
    assert process.stdout is not None
    return process.stdout.fileno()
