"""A folder for the filesystem example, and the command of its server."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from support.project import ROOT

SERVER = [sys.executable, str(ROOT / "examples" / "filesystem" / "server.py")]
MODIFIED = 1_760_000_000
ACCESSED = int(time.time()) + 3600  # Later than all changes, so that reading does not change it.


def fill(folder: Path) -> None:
    """Make a folder with all that the calls name; beside it is one that nobody may read."""
    shutil.rmtree(folder.parent, ignore_errors=True)
    (folder / "sub" / "deep" / "node_modules").mkdir(parents=True)
    (folder / "empty").mkdir()
    texts = {
        "a.txt": "one\ntwo\n  three\n    four\nfive\n",
        "B.md": "no line end",
        "crlf.txt": "a\r\nb\r\nc",
        "empty.txt": "",
        "ünï cödé.txt": "Grüße ```` und `mehr`\n",
        "long.txt": "".join(f"line {number}\n" for number in range(400)),
        "_x.py": "def f():\n    if x:\n        return 1\n    return 2\n",
        ".hidden": "h",
        "sub/c.txt": "c",
        "sub/[x].txt": "x",
        "sub/deep/d.TXT": "d" * 1500,
        "sub/deep/node_modules/e.js": "e",
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
    (folder / "binary").write_bytes(b"\xff\xfe\x00a\xc3")
    (folder / "pixel.PNG").write_bytes(b"\x89PNG\r\n")
    (folder / "tone.wav").write_bytes(b"RIFF")
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "secret").write_text("hidden treasure")
    (folder / "link").symlink_to(folder / "sub")
    (folder / "to a file").symlink_to(folder / "a.txt")
    (folder / "out").symlink_to(folder.parent / "outside")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "a.txt").chmod(0o640)
    for path in sorted(folder.rglob("*"), reverse=True):
        os.utime(path, (ACCESSED, MODIFIED), follow_symlinks=False)
    os.utime(folder, (ACCESSED, MODIFIED))
