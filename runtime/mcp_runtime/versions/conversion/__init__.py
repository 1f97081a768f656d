"""Messages of one revision go in, the same messages of another come out, with a report of what was lost."""

from .chain import Chain, chain_of
from .report import ConversionReport, Loss

__all__ = ["Chain", "ConversionReport", "Loss", "chain_of"]
