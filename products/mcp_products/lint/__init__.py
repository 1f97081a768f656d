"""What hosts, model APIs and models would refuse of a server, found before its users do."""

from .check import lint as lint
from .findings import Finding as Finding
from .snapshot import Snapshot as Snapshot
