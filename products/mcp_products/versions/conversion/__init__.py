"""Conversion of messages between revisions, with a report of the properties that were lost."""

from __future__ import annotations

from .chain import Chain, apply_changes, chain_of
from .operations import ConversionReport, Loss

__all__ = ["Chain", "ConversionReport", "Loss", "apply_changes", "chain_of"]
