"""The programs of docs/python.md run unchanged, except that they use a simulated interface and a test store."""

import os
import re
from pathlib import Path

import pytest
from conftest import run, udp, write_pcap

PAGE = Path(__file__, "../../../../../docs/python.md").resolve()
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pcap("trace.pcapng", [udp(packet) for packet in range(1000)])
    program = PROGRAMS[number].replace('"packet:eth0"', '"sim:2"').replace('"eth0"', '"sim:2"')
    program = program.replace('"/data/store"', repr(os.environ["WIRELANE_TEST_STORE"]))
    ended = run(program)
    assert ended.returncode == 0, program + ended.stderr


def test_there_are_programs():
    assert len(PROGRAMS) >= 6
