import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, SupportsIndex, final

from .errors import Error as Error
from .errors import NotFoundError as NotFoundError
from .errors import NotPermittedError as NotPermittedError
from .errors import UsageError as UsageError

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

# Anything with a buffer: bytes, bytearray, memoryview, numpy arrays, Frame.
# `collections.abc.Buffer` needs Python 3.12.
_Buffer = Any

# A datetime with its time zone (also pandas.Timestamp), or nanoseconds since 1970.
_Moment = datetime | SupportsIndex

def open(
    spec: str | os.PathLike[str],
    *,
    filter: str | None = None,
    rx_queues: str | Iterable[SupportsIndex] | None = None,
    tx_queues: str | Iterable[SupportsIndex] | None = None,
    other: bool = True,
    snaplen: int | None = None,
    promiscuous: bool = False,
    ring: int | None = None,
    count: int | None = None,
    columns: list[str] | None = None,
    receive: bool = True,
    transmit: bool = False,
    take: Literal["nothing", "matching", "all"] = "nothing",
) -> Port:
    """Opens a port, such as 'packet:eth0' or 'sim:4', and starts to receive.

    filter: selects packets, in tcpdump's language.
    rx_queues, tx_queues, other: the initial masks: 'all', 'none', '0,2-3', or numbers.
    snaplen: the most bytes to keep of a packet.
    ring: bytes of receive memory per queue.
    count: the port ends after this number of packets.
    columns: the columns of batches; by default all but 'data', the packet's bytes.
    take: which packets `xdp:` may take from the host.
    """

def read(
    path: str | os.PathLike[str],
    *,
    filter: str | None = None,
    start: _Moment | None = None,
    end: _Moment | None = None,
    count: int | None = None,
    columns: list[str] | None = None,
) -> Port | Search:
    """Opens a capture file (pcap or pcapng, also compressed), or searches a directory of
    `wirelane record`.

    The packets of a directory are in order of time. If parts are damaged, an error follows the last
    packet.

    filter: selects packets, in tcpdump's language. In a directory, the index narrows the search.
    start, end: for a directory, only packets from `start` on, and before `end`.
    count: the most packets to read.
    columns: the columns of batches; by default all but 'data', the packet's bytes.
    """

def send(
    port: Port | str,
    frames: Iterable[_Buffer],
    queue: int | None = None,
    *,
    rate: float | str | None = None,
    speed: float | None = None,
) -> int:
    """Sends packets through a port, or opens one with this spec. Returns the number of packets
    sent.

    A file (`'file:out.pcapng'`) is a port, too, and keeps the times of frames.

    rate: an even rate: packets per second, or '10kpps', '6Gbit' or '80%' of the link; by default
        unlimited.
    speed: replays the frames' times: 1 keeps the intervals between them, 2 is twice as fast.
    """

def flows(
    source: str | os.PathLike[str],
    *,
    filter: str | None = None,
    start: _Moment | None = None,
    end: _Moment | None = None,
    active: float = 300.0,
    idle: float = 15.0,
    max_flows: int = 1_000_000,
    count: int | None = None,
) -> Flows:
    """Meters the two-way flows of a port or file, with a thread per queue, or of a directory of
    `wirelane record`.

    start, end: for a directory, only packets from `start` on, and before `end`.

    A flow ends `idle` seconds after its last packet; a longer flow is exported every `active`
    seconds.
    """

class Packets:
    """Packets of a port or a directory, as batches.

    It is an Arrow stream, too: `polars.DataFrame(port)`.
    """

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of its batches."""
    @property
    def ended(self) -> bool:
        """Whether all packets were taken."""
    def batches(self, rows: int = 8192, wait: float = 0.1) -> Batches:
        """Batches of at most `rows` packets, or fewer once the first packet has waited for `wait`
        seconds."""
    def batch(self, rows: int = 8192, wait: float = 0.1, timeout: float | None = None) -> Batch | None:
        """The next batch; None at the end, or if no packet arrives within `timeout` seconds."""
    def frames(self) -> Frames:
        """Packets one by one."""
    def frame(self, timeout: float | None = None) -> Frame | None:
        """The next packet; None at the end, or if none arrives within `timeout` seconds."""
    def close(self) -> None:
        """Releases all resources. Frames and batches already taken stay valid."""
    def __iter__(self) -> Batches: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class Port(Packets):
    """An open port."""

    @property
    def spec(self) -> str: ...
    @property
    def info(self) -> dict[str, Any]:
        """Negotiated mode, queues, attempts and notes."""
    @property
    def rx_queues(self) -> Literal["all"] | list[int]:
        """The RX queues whose packets are selected. Setting it changes them while packets flow."""
    @rx_queues.setter
    def rx_queues(self, queues: str | Iterable[SupportsIndex]) -> None: ...
    @property
    def tx_queues(self) -> Literal["all"] | list[int]: ...
    @tx_queues.setter
    def tx_queues(self, queues: str | Iterable[SupportsIndex]) -> None: ...
    @property
    def other(self) -> bool:
        """Whether packets without a queue are selected."""
    @other.setter
    def other(self, other: bool) -> None: ...
    def set_filter(self, filter: str | None) -> None:
        """Replaces the filter while packets flow; None takes all packets."""
    def send(
        self,
        frames: Iterable[_Buffer],
        queue: int | None = None,
        *,
        rate: float | str | None = None,
        speed: float | None = None,
    ) -> int:
        """Sends packets through this TX queue, or the first one, like `wirelane.send`."""
    def stats(self) -> dict[str, Any]:
        """Counters of each queue, and their sums. An unknown counter is None."""
    def stop(self) -> None:
        """Stops receiving. Packets received before can still be taken."""
    def close(self) -> None:
        """Stops, and releases all resources. Frames and batches already taken stay valid."""

@final
class Search(Packets):
    """Packets that a search of a directory of `wirelane record` finds, in order of time."""

    def stats(self) -> dict[str, Any] | None:
        """Counts of the packets found and the segments read, and the damage; None while it runs,
        or if it failed."""
    def stop(self) -> None:
        """Stops the search. Packets found before can still be taken."""

@final
class Batch:
    """Packets or flows as Arrow columns, without a copy.

    For example `pyarrow.record_batch(batch)` or `polars.DataFrame(batch)`.
    """

    @property
    def column_names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Batches(Iterator[Batch]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...

@final
class Frame:
    """One packet: a buffer, for `memoryview(frame)`, `bytes(frame)` or
    `numpy.frombuffer(frame, 'u1')`.

    It owns its bytes, and stays valid after its port is closed.
    """

    @property
    def time(self) -> int:
        """Time of capture, in nanoseconds since 1970; 0 if the port has no time."""
    @property
    def length(self) -> int:
        """Its length on the wire, in bytes."""
    @property
    def queue(self) -> int | None:
        """Its queue, or None."""
    @property
    def class_(self) -> Literal["rx", "tx", "other"]: ...
    @property
    def interface(self) -> str:
        """The name of its interface."""
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Frames(Iterator[Frame]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Frame: ...

@final
class Flows(Iterator[Batch]):
    """Flows that have ended, in batches. It is an Arrow stream, too."""

    @property
    def column_names(self) -> list[str]: ...
    def stats(self) -> dict[str, Any] | None:
        """Counts of packets and flows; None while it runs."""
    def stop(self) -> None:
        """Stops receiving. The flows of packets received before can still be taken."""
    def close(self) -> None:
        """Stops metering. Flows not taken are lost."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
