"""The socket for Scapy."""

import pytest
from conftest import START, udp
from scapy.config import conf
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.sendrecv import sniff

import wirelane
from wirelane.scapy import Socket


def test_sniff_reads_a_file_to_its_end(capture):
    with Socket(f"file:{capture}", filter="udp src port 1007 or udp src port 1008") as socket:
        packets = sniff(opened_socket=socket, timeout=20)
    assert [packet[UDP].sport for packet in packets] == [1007, 1008]
    assert bytes(packets[0]) == udp(7)
    assert packets[0].time == pytest.approx(START / 1e9 + 7e-6)


def test_sniff_ends_in_time_without_packets():
    with Socket("sim:1?rate=1pps", filter="tcp") as socket:
        assert len(sniff(opened_socket=socket, timeout=0.3)) == 0


def test_sniff_by_several_sockets():
    with Socket("sim:2?rate=1kpps") as one, Socket("sim:2?rate=1kpps&seed=3") as two:
        packets = sniff(opened_socket=[one, two], count=100, timeout=20)
    assert len(packets) >= 100
    assert {packet.sniffed_on is None for packet in packets} == {False}


def test_packets_are_sent():
    with Socket("sim:1") as socket:
        packet = Ether() / IP(dst="10.0.0.9") / UDP(dport=9)
        assert socket.send(packet) == len(bytes(packet))
        assert packet.sent_time > 0
        assert socket.port.stats()["totals"]["sent"] == 1


def test_scapy_takes_it_for_its_own(monkeypatch):
    monkeypatch.setattr(conf, "L2listen", Socket)
    assert len(sniff(iface="sim:2?rate=1kpps", L2socket=Socket, count=10, timeout=20)) == 10
