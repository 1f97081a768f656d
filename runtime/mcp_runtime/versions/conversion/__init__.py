"""Conversion of messages between revisions, with a report of the properties that were lost."""

from .chain import Chain, chain_of
from .report import ConversionReport, Loss

__all__ = ["Chain", "ConversionReport", "Loss", "chain_of"]
