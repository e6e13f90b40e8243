"""Packets of a real interface: loopback."""

import os
import socket

import pyarrow
import pytest
from scapy.layers.inet import UDP
from scapy.sendrecv import sniff

import wirelane
from wirelane.scapy import Socket

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for packet sockets")


@pytest.fixture
def talk():
    """A function that sends datagrams over loopback to an unused UDP port, and returns the port number."""
    with socket.socket(type=socket.SOCK_DGRAM) as here, socket.socket(type=socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        here.connect(there.getsockname())

        def send(count: int) -> int:
            for number in range(count):
                here.send(b"%04d" % number)
            return there.getsockname()[1]

        yield send


def test_frames_are_what_was_sent(talk):
    number = talk(0)
    with wirelane.open("packet:lo", filter=f"udp dst port {number}", tx_queues="none") as port:
        talk(100)
        frames = [port.frame(timeout=10) for _ in range(100)]
        assert port.frame(timeout=0.2) is None
        stats = port.stats()
    assert [bytes(frame)[42:46] for frame in frames] == [b"%04d" % number for number in range(100)]
    assert {(frame.interface, frame.class_ != "tx") for frame in frames} == {("lo", True)}
    assert all(frame.time > 1_600_000_000_000_000_000 for frame in frames)
    assert (stats["totals"]["delivered"], stats["totals"]["dropped"]) == (100, 0)


def test_rows_are_what_was_sent(talk):
    number = talk(0)
    spec = dict(filter=f"udp dst port {number}", tx_queues="none", count=100)
    with wirelane.open("packet:lo", **spec) as port:
        talk(100)
        table = pyarrow.table(port)
    assert table.num_rows == 100
    assert set(table["destination_port"].to_pylist()) == {number}
    assert set(table["source"].to_pylist()) == {"127.0.0.1"}


def test_scapy_sniffs_what_was_sent(talk):
    number = talk(0)
    with Socket("lo", filter=f"udp dst port {number}", tx_queues="none") as here:
        talk(10)
        packets = sniff(opened_socket=here, count=10, timeout=10)
    assert [bytes(packet[UDP].payload)[:4] for packet in packets] == [b"%04d" % one for one in range(10)]


def test_a_frame_of_a_wrong_length_is_named():
    good, short = bytes(12) + b"\x88\xb5" + bytes(46), bytes(10)
    with wirelane.open("packet:lo", receive=False, transmit=True) as port:
        with pytest.raises(wirelane.Error, match="wrong length") as raised:
            port.send([good] * 70 + [short, good])
    assert (raised.value.index, raised.value.sent) == (70, 71)
