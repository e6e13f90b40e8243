"""The programs in examples/ that count bytes by host agree."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import udp, write_pcap

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("library", ["polars", "pandas", "scapy"])
def test_top_talkers(library, tmp_path):
    back = udp(0, 200)
    back = back[:26] + back[30:34] + back[26:30] + back[34:]  # from 10.0.0.2 to 10.0.0.1
    capture = write_pcap(tmp_path / "capture.pcap", [udp(n) for n in range(10)] + [back] * 5)
    program = [sys.executable, str(EXAMPLES / f"top_talkers_{library}.py"), str(capture)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "10.0.0.2 5 1000\n10.0.0.1 10 600\n"
