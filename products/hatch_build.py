"""The hook that adds what stands elsewhere in the checkout; an unpacked sdist has it already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CheckoutHook(BuildHookInterface[Any]):
    """Add the paths of `[tool.hatch.build.hooks.custom.checkout]`. An editable installation reads the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for source, target in self.config["checkout"].items():
            if version != "editable" and not Path(self.root, target).exists():
                build_data["force_include"][str(Path(self.root, source).resolve(strict=True))] = target
