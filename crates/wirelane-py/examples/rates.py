"""How many packets per second Python gets from a capture file: by wirelane, Scapy and dpkt, and by Rust alone.

    cargo build --release -p wirelane-py --example batches
    maturin build --release
    pip install …/wirelane-*.whl pyarrow scapy dpkt
    python examples/rates.py target/release/examples/batches

All read the same file from memory, in turns; each row is a median of five. The slow ones read its beginning. The first
figure is of time that passed, the second one of CPU time, which says more on a machine that has other work.
"""

import os
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
# dpkt and Scapy read fewer packets, so that a round takes seconds.
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


def wirelane_fields(path: str) -> int:
    """The fields that `dpkt` reads below, and no others."""
    import wirelane

    columns = ["time", "length", "protocol", "source", "source_port", "destination", "destination_port"]
    return sum(len(batch) for batch in wirelane.read(path, columns=columns))


def dpkt(path: str) -> int:
    """Rows of some fields, as programs that use dpkt have them: a fifth of the columns of a batch."""
    import socket

    import dpkt as library

    count, rows = 0, []
    with open(path, "rb") as file:
        for time, data in library.pcap.Reader(file):
            ip = library.ethernet.Ethernet(data).data
            source, destination = socket.inet_ntoa(ip.src), socket.inet_ntoa(ip.dst)
            rows.append((time, len(data), ip.p, source, ip.data.sport, destination, ip.data.dport))
            count += 1
            if len(rows) == 8192:
                rows = []
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


def cpu() -> float:
    """Seconds of all CPUs that this process and its children have used."""
    return sum(os.times()[:4])


def main() -> None:
    import wirelane

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        whole = Path(directory, "whole.pcap")
        with wirelane.open("sim:1?size=imix&flows=10000", count=PACKETS) as port:
            wirelane.send(f"file:{whole}", port.frames())
        readers = {
            "wirelane, batches": (wirelane_batches, whole),
            "wirelane, dpkt's fields": (wirelane_fields, whole),
            "wirelane, pyarrow.table": (wirelane_pyarrow, whole),
            "wirelane, frames": (wirelane_frames, whole),
            "dpkt": (dpkt, part(whole, PARTS["dpkt"])),
            "scapy": (scapy, part(whole, PARTS["scapy"])),
        }
        if len(sys.argv) > 1:
            readers["rust"] = (rust(sys.argv[1]), whole)
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
        for _ in range(ROUNDS):
            for name, (read, path) in readers.items():
                since = time.perf_counter(), cpu()
                count = read(str(path))
                rates[name].append((count / (time.perf_counter() - since[0]), count / (cpu() - since[1])))
        middle = {name: [statistics.median(one) for one in zip(*all)] for name, all in rates.items()}
        own = middle["wirelane, batches"]
        for name, (passed, used) in middle.items():
            print(
                f"{name:24} {passed / 1e3:8.1f} kpps, batches {own[0] / passed:6.2f} times as fast;"
                f" by CPU time {used / 1e3:8.1f} kpps, {own[1] / used:6.2f}"
            )


if __name__ == "__main__":
    main()
