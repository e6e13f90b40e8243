"""A socket for Scapy: `sniff(opened_socket=Socket("eth0"))`, or `conf.L2socket = Socket` for all of it.

Importing this needs Scapy; the rest of the package does not.
"""

from __future__ import annotations

import time
from typing import Any

from scapy.compat import raw
from scapy.config import conf
from scapy.data import MTU
from scapy.interfaces import network_name
from scapy.packet import Packet
from scapy.supersocket import SuperSocket

import wirelane

# How long `select` waits for all sockets together, in seconds.
_TURN = 0.05
_BACKENDS = ("sim", "file", "packet", "xdp", "tap")


class Socket(SuperSocket):
    """A port as a socket of Scapy. It accepts all options of `wirelane.open`."""

    desc = "packets by the rings of wirelane"
    # `select` returns now and then without a packet, so that Scapy can end.
    nonblocking_socket = True

    def __init__(
        self,
        iface: Any = None,
        type: int | None = None,
        promisc: bool | None = None,
        filter: str | None = None,
        nofilter: int = 0,
        monitor: bool | None = None,
        **options: Any,
    ) -> None:
        """`iface` is the name of an interface, or a spec such as 'sim:2' or 'file:trace.pcapng'."""
        del type, monitor
        self.closed = True
        self.iface = iface if iface is not None else conf.iface
        spec = str(self.iface)
        if spec.partition(":")[0] not in _BACKENDS:
            spec = f"packet:{network_name(self.iface)}"
        options.setdefault("transmit", not spec.startswith("file:"))
        options.setdefault("promiscuous", conf.sniff_promisc if promisc is None else promisc)
        self.port = wirelane.open(spec, filter=None if nofilter else filter, **options)
        self.closed = False
        self.basecls = conf.l2types.num2layer.get(self.port.info["link_type"], conf.raw_layer)
        self._next: wirelane.Frame | None = None

    def recv_raw(self, x: int = MTU) -> tuple[Any, bytes | None, float | None]:
        """The next packet, truncated to `x` bytes."""
        frame, self._next = self._next or self.port.frame(), None
        if frame is None:
            raise EOFError
        return self.basecls, bytes(frame)[:x], frame.time / 1e9

    def recv(self, x: int = MTU, **kwargs: Any) -> Packet | None:
        """The next packet. Its `wirelen` is the length on the wire."""
        length = self._next.length if self._next else None
        packet = super().recv(x, **kwargs)
        if packet is not None and length is not None:
            packet.wirelen = length
        return packet

    def send(self, x: Packet) -> int:
        """Sends a packet, and returns its length."""
        data = raw(x)
        x.sent_time = time.time()
        self.port.send([data])
        return len(data)

    def fileno(self) -> int:
        """A port has no descriptor for Scapy."""
        return -1

    def close(self) -> None:
        """Closes the port."""
        if not self.closed:
            self.closed = True
            self.port.close()

    @staticmethod
    def select(sockets: list[SuperSocket], remain: float | None = None) -> list[SuperSocket]:
        """The sockets with a packet or at their end. None if all are silent for a short time."""
        own = [socket for socket in sockets if isinstance(socket, Socket)]
        patience = _TURN / max(len(own), 1)
        if remain is not None:
            patience = min(patience, max(remain, 0))
        ready: list[SuperSocket] = []
        for socket in own:
            if socket._next is None and not socket.port.ended:
                socket._next = socket.port.frame(timeout=patience)
            if socket._next is not None or socket.port.ended:
                ready.append(socket)
                patience = 0
        return ready
