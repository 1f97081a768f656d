"""200 programs that try to leave the sandbox: none reads a secret of this process, writes, connects or starts anything.

A program has escaped if there is a trace of it: the secret in what it returns, a file that it made, a connection, or a
sandbox that no longer serves the next program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.clients import connect
from support.installation.extras import optional

from mcp_generated import App
from mcp_generated.code_mode import CodeLimits, CodeMode

monty: Any = optional("pydantic_monty")
pytestmark = pytest.mark.skipif(not monty, reason="needs the extra code: pydantic_monty is not installed")

SECRET: Final = "the-secret-of-the-host"
_PATHS: Final = (
    "{secret}",
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/1/cmdline",
    "../../../../{secret}",
    "file://{secret}",
)
_READS: Final = (
    "print(open({path!r}).read())",
    "from pathlib import Path\nprint(Path({path!r}).read_text())",
    "import os\nprint(os.listdir(os.path.dirname({path!r})), os.stat({path!r}))",
    "import io\nprint(io.open({path!r}).read())",
    "with open({path!r}, 'rb') as file:\n    print(file.read())",
)
_WRITES: Final = (
    "open({made!r}, 'w').write('x')",
    "open({made!r}, 'x')",
    "from pathlib import Path\nPath({made!r}).write_text('x')",
    "from pathlib import Path\nPath({made!r}).mkdir()",
    "import os\nos.mkdir({made!r})",
    "import os\nos.symlink('/', {made!r})",
    "from pathlib import Path\nPath({made!r}).touch()",
    "import os\nos.rename({secret!r}, {made!r})",
    "from pathlib import Path\nPath({secret!r}).unlink()",
    "import os\nos.remove({secret!r})",
)
_COMMANDS: Final = (
    "import os\nos.system('touch {made}')",
    "import subprocess\nsubprocess.run(['touch', {made!r}])",
    "import os\nos.popen('touch {made}').read()",
    "import os\nos.execv('/bin/touch', ['touch', {made!r}])",
    "import os\nos.fork()",
    "import pty\npty.spawn(['touch', {made!r}])",
    "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "import ctypes\nctypes.CDLL(None).system(b'touch {made}')",
    "__import__('os').system('touch {made}')",
    "import importlib\nimportlib.import_module('os').system('touch {made}')",
    "eval(\"__import__('os').system('touch {made}')\")",
    "exec(\"import subprocess\\nsubprocess.run(['touch', '{made}'])\")",
    "exec(compile(\"open('{made}', 'w')\", 'x', 'exec'))",
    "import sys\nsys.modules['os'].system('touch {made}')",
    "import builtins\nbuiltins.open({made!r}, 'w')",
    "from os import system\nsystem('touch {made}')",
    "import posix\nposix.system('touch {made}')",
    "import signal\nsignal.raise_signal(9)",
    "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "import code\ncode.interact()",
)
_NETWORK: Final = (
    "import socket\nsocket.create_connection(('127.0.0.1', {port}))",
    "import socket\ns = socket.socket()\ns.connect(('127.0.0.1', {port}))",
    "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:{port}/')",
    "import http.client\nhttp.client.HTTPConnection('127.0.0.1', {port}).request('GET', '/')",
    "import asyncio\nawait asyncio.open_connection('127.0.0.1', {port})",
    "import ssl, socket\nsocket.socket().connect(('127.0.0.1', {port}))",
    "import requests\nrequests.get('http://127.0.0.1:{port}/')",
    "import httpx2\nhttpx2.get('http://127.0.0.1:{port}/')",
    "import ftplib\nftplib.FTP().connect('127.0.0.1', {port})",
    "import smtplib\nsmtplib.SMTP('127.0.0.1', {port})",
)
_STARTS: Final = ("()", "''", "1", "[]", "{}", "print", "secret_free", "(lambda: 0)", "type", "Exception()")
_CHAINS: Final = (
    "{x}.__class__.__base__.__subclasses__()",
    "{x}.__class__.__mro__[-1].__subclasses__()",
    "{x}.__globals__",
    "{x}.__init__.__globals__",
    "{x}.__self__.__dict__",
    "{x}.__code__.co_consts",
    "{x}.__reduce_ex__(4)",
    "{x}.__dir__()",
    "'{{0.__class__.__init__.__globals__}}'.format({x})",
    "getattr({x}, '__glo' + 'bals__')",
)
_ENVIRONMENT: Final = (
    "import os\nprint(dict(os.environ))",
    "import os\nprint(os.getenv('HOST_SECRET'))",
    "import os\nprint(os.environ['HOST_SECRET'])",
    "import sys\nprint(sys.argv, sys.path)",
    "import sys\nprint(sys._getframe().f_back.f_globals)",
    "import inspect\nprint(inspect.stack())",
    "import gc\nprint(gc.get_objects())",
    "import os\nprint(os.getcwd(), os.listdir('.'))",
    "print(globals())",
    "print(locals(), vars())",
    "try:\n    1 / 0\nexcept Exception as e:\n    print(e.__traceback__.tb_frame.f_back.f_globals)",
    "def g():\n    yield\nprint(g().gi_frame.f_back)",
    "import platform\nprint(platform.uname())",
    "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'touch {made}'\\ntR.\")",
    "import marshal\nprint(marshal.loads(b'x'))",
    "import threading\nprint(threading.enumerate())",
    "help()",
    "input()",
    "breakpoint()",
    "import atexit\natexit.register(print)",
)
_EXHAUSTION: Final = (
    "while True: pass",
    "x = []\nwhile True: x.append(x)",
    "x = 'a' * (1 << 40)",
    "x = 9 ** 9 ** 9",
    "def f(): return f()\nf()",
    "[0] * (1 << 33)",
    "while True: print('x' * 1000)",
    "sum(range(10 ** 12))",
    "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "'%999999999d' % 1",
)


def programs(secret: Path, made: Path, port: int) -> Iterator[str]:
    """Yield the programs of each kind."""
    values = {"secret": str(secret), "made": str(made), "port": port}
    for path in _PATHS:
        yield from (read.format(path=path.format(**values)) for read in _READS)
    yield from (text.format(**values) for text in (*_WRITES, *_COMMANDS, *_NETWORK))
    for start in _STARTS:
        yield from (f"print({chain.format(x=start)})" for chain in _CHAINS)
    yield from (text.replace("{made}", str(made)) for text in (*_ENVIRONMENT, *_EXHAUSTION))


@pytest.mark.deadline(120)
@pytest.mark.long
async def test_no_program_leaves_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", SECRET)
    secret, made = tmp_path / "secret.txt", tmp_path / "made"
    secret.write_text(SECRET)
    connections: list[object] = []

    async def connected(reader: object, writer: asyncio.StreamWriter) -> None:
        connections.append(reader)
        writer.close()

    def one() -> int:
        return 1

    app = App("host")
    app.add_tool(one, name="secret_free")
    app.add_transform(CodeMode(limits=CodeLimits(seconds=0.3, memory=16 << 20, output=100_000)))
    async with await asyncio.start_server(connected, "127.0.0.1", 0) as listener, connect(app) as client:
        tried = list(programs(secret, made, listener.sockets[0].getsockname()[1]))
        assert len(tried) == 200 == len(set(tried))
        escaped: list[str] = []
        for program in tried:
            result = await client.call_tool("run_python", {"code": program})
            text = result.content[0].text
            if SECRET in text or "root:" in text or made.exists() or not secret.exists() or connections:
                escaped.append(program)
        assert escaped == []
        assert (await client.call_tool("run_python", {"code": "secret_free() + 1"})).content[0].text == "2"
