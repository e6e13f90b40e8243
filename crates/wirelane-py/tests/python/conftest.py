"""Shared helpers of the tests: files of known packets, and separate Python processes."""

import os
import signal
import struct
import subprocess
import sys
import time

import pytest

import wirelane

START = 1_700_000_000_000_000_000


def udp(number: int, size: int = 60) -> bytes:
    """An Ethernet frame with IPv4 and UDP: from 10.0.0.1:1000+n to 10.0.0.2:53."""
    payload = struct.pack("!I", number).ljust(size - 42, b"\x2a")
    udp_header = struct.pack("!HHHH", 1000 + number % 50000, 53, 8 + len(payload), 0)
    total = 20 + len(udp_header) + len(payload)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, total, 0, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return b"\x02\0\0\0\0\2" + b"\x02\0\0\0\0\1" + b"\x08\0" + ip + udp_header + payload


def write_pcap(path, packets, snaplen=262144):
    """Writes a pcap file with times in nanoseconds, one packet per microsecond, without the library under test."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, 1))
        for number, packet in enumerate(packets):
            seconds, rest = divmod(START + 1000 * number, 1_000_000_000)
            file.write(struct.pack("<IIII", seconds, rest, len(packet[:snaplen]), len(packet)))
            file.write(packet[:snaplen])
    return path


@pytest.fixture
def capture(tmp_path):
    """A file of 1000 packets."""
    return write_pcap(tmp_path / "capture.pcap", [udp(number) for number in range(1000)])


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs a program in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def interrupt(code: str) -> tuple[int, str, float]:
    """Runs a program until it prints that it waits, then sends SIGINT; returns status, errors and time to its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "waits\n", process.communicate()
        time.sleep(0.3)
        assert process.poll() is None, process.communicate()
        since = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        return process.returncode, errors, time.monotonic() - since
    finally:
        process.kill()
        process.wait()


__all__ = ["START", "interrupt", "run", "udp", "wirelane", "write_pcap"]
