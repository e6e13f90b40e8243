"""How many packets per second Python gets from a capture file: by wirelane, Scapy and dpkt, and by Rust alone.

    cargo build --release -p wirelane-py --example batches
    maturin build --release
    pip install …/wirelane-*.whl pyarrow scapy dpkt
    python examples/rates.py target/release/examples/batches

All read the same file from memory, in turns; each row is a median of five. The slow ones read its beginning.
"""

import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 5
PACKETS = 2_000_000
# What dpkt and Scapy read, so that a round takes seconds.
PARTS = {"dpkt": 200_000, "scapy": 20_000}


def wirelane_batches(path: str) -> int:
    import wirelane

    return sum(len(batch) for batch in wirelane.read(path))


def wirelane_pyarrow(path: str) -> int:
    import pyarrow
    import wirelane

    return pyarrow.table(wirelane.read(path)).num_rows


def wirelane_frames(path: str) -> int:
    import wirelane

    return sum(1 for _ in wirelane.read(path).frames())


def dpkt(path: str) -> int:
    """Headers of all layers, and addresses as text, as the rows of the others have them."""
    import socket

    import dpkt as library

    count = 0
    with open(path, "rb") as file:
        for _, data in library.pcap.Reader(file):
            packet = library.ethernet.Ethernet(data)
            if isinstance(packet.data, library.ip.IP):
                socket.inet_ntoa(packet.data.src), socket.inet_ntoa(packet.data.dst)
            count += 1
    return count


def scapy(path: str) -> int:
    from scapy.layers.l2 import Ether  # noqa: F401: loads the layers
    from scapy.layers.inet import IP, TCP, UDP  # noqa: F401
    from scapy.utils import PcapReader

    with PcapReader(path) as packets:
        return sum(1 for _ in packets)


def rust(program: str) -> Callable[[str], int]:
    def run(path: str) -> int:
        ended = subprocess.run([program, path], capture_output=True, text=True, check=True)
        return int(ended.stderr.split()[0])

    return run


def part(path: Path, count: int) -> Path:
    """The first packets of a pcap file, in a file of their own."""
    data = path.read_bytes()
    at = 24
    for _ in range(count):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    out = path.with_name(f"{count}.pcap")
    out.write_bytes(data[:at])
    return out


def main() -> None:
    import wirelane

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        whole = Path(directory, "whole.pcap")
        with wirelane.open(f"sim:1?size=imix&flows=10000", count=PACKETS) as port:
            wirelane.send(f"file:{whole}", port.frames())
        readers = {
            "wirelane, batches": (wirelane_batches, whole),
            "wirelane, pyarrow.table": (wirelane_pyarrow, whole),
            "wirelane, frames": (wirelane_frames, whole),
            "dpkt": (dpkt, part(whole, PARTS["dpkt"])),
            "scapy": (scapy, part(whole, PARTS["scapy"])),
        }
        if len(sys.argv) > 1:
            readers["rust"] = (rust(sys.argv[1]), whole)
        rates: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(ROUNDS):
            for name, (read, path) in readers.items():
                since = time.perf_counter()
                count = read(str(path))
                rates[name].append(count / (time.perf_counter() - since))
        own = statistics.median(rates["wirelane, batches"])
        for name, all in rates.items():
            rate = statistics.median(all)
            print(f"{name:24} {rate / 1e3:10.1f} kpps   batches are {own / rate:8.2f} times as fast")


if __name__ == "__main__":
    main()
