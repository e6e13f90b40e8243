"""Multi-queue packet I/O: packets and flows as Arrow, frames as buffers.

>>> import wirelane
>>> with wirelane.open("sim:2", count=1000) as port:
...     sum(len(batch) for batch in port)
1000
"""

from ._wirelane import (
    Batch,
    Batches,
    Flows,
    Frame,
    Frames,
    Packets,
    Port,
    Search,
    flows,
    open,
    read,
    send,
)
from .errors import Error, NotFoundError, NotPermittedError, UsageError

__all__ = [
    "Batch",
    "Batches",
    "Error",
    "Flows",
    "Frame",
    "Frames",
    "NotFoundError",
    "NotPermittedError",
    "Packets",
    "Port",
    "Search",
    "UsageError",
    "flows",
    "open",
    "read",
    "send",
]
