"""Install packages in environments of their own: other implementations, and this project."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / "build" / "peers"
LIMIT = 600  # Seconds for one installation.


def environment(name: str, *requirements: str) -> Path:
    """Make the virtual environment once, under build/peers/, and return its interpreter."""
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
    """Return the interpreter of an environment with this checkout and its dependencies only.

    Every other installed package makes the start of pydantic slower.
    """
    for folder in ("runtime", "products", "generated"):  # An editable installation does not compile them.
        compileall.compile_dir(ROOT / folder, quiet=1)
    return environment("ours", "--editable", str(ROOT))


def ours_with(extra: str) -> Path:
    """Return the interpreter of another environment, with what an extra of this checkout requires of others.

    The extra itself also requires the distribution of this checkout's products, which pip would search elsewhere.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = project["optional-dependencies"][extra]
    others = [requirement for requirement in required if not requirement.startswith(project["name"])]
    return environment(f"ours-{extra}", "--editable", str(ROOT), *others)


def node_packages(name: str, *requirements: str) -> Path:
    """Install npm packages once, under build/peers/, and return the folder; a script in it can import them.

    Raises RuntimeError with a one-line reason if Node or npm is missing or npm fails.
    """
    folder = ENVIRONMENTS / name
    done = folder / "installed.txt"
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise RuntimeError("node and npm are not on the PATH")
    if not done.exists() or done.read_text().split() != list(requirements):
        print(f"installing {' '.join(requirements)} into build/peers/{name} …", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n')  # Otherwise npm searches the parent folders.
        command = ["npm", "install", "--no-audit", "--no-fund", *requirements]
        try:
            subprocess.run(command, cwd=folder, check=True, timeout=LIMIT, capture_output=True, text=True)
        except (subprocess.SubprocessError, OSError) as error:
            lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
            raise RuntimeError(f"npm install failed: {lines[-1] if lines else error}") from None
        done.write_text("\n".join(requirements))
    return folder
