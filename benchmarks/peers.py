"""Names of packages go in, environments of their own that hold them come out: other projects', and this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / "build" / "peers"
LIMIT = 600  # Seconds one installation may take.


def environment(name: str, *requirements: str) -> Path:
    """Make the virtual environment once, under build/peers/, and give its interpreter."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    done = folder / "installed.txt"
    if not done.exists() or done.read_text().split() != list(requirements):
        print(f"installing {' '.join(requirements)} into build/peers/{name} …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *requirements]
        subprocess.run(command, check=True, timeout=LIMIT)
        done.write_text("\n".join(requirements))
    return python


def ours() -> Path:
    """The interpreter of an environment that holds this project, as it is now, and what it needs: as its users have it,
    because what else is installed costs each start of pydantic something."""
    return environment("ours", "--editable", str(ROOT))


def node_packages(name: str, *requirements: str) -> Path:
    """Install npm packages once, under build/peers/, and give the folder; a script in it can import them.

    Raises RuntimeError, with the reason in one line, where Node or npm is not there or npm fails.
    """
    folder = ENVIRONMENTS / name
    done = folder / "installed.txt"
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise RuntimeError("node and npm are not on the PATH")
    if not done.exists() or done.read_text().split() != list(requirements):
        print(f"installing {' '.join(requirements)} into build/peers/{name} …", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n')  # Else npm looks for one in the folders above.
        command = ["npm", "install", "--no-audit", "--no-fund", *requirements]
        try:
            subprocess.run(command, cwd=folder, check=True, timeout=LIMIT, capture_output=True, text=True)
        except (subprocess.SubprocessError, OSError) as fault:
            said = str(getattr(fault, "stderr", None) or fault).strip().splitlines()
            raise RuntimeError(f"npm install failed: {said[-1] if said else fault}") from None
        done.write_text("\n".join(requirements))
    return folder
