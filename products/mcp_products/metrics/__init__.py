"""What all processes of an endpoint have measured, added up at one path for Prometheus."""

from .process import PROCESS as PROCESS
from .process import note_end as note_end
