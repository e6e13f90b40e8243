"""Directories of `wirelane record`, with the known packets that `tests/wheel/store.rs` wrote."""

import gc
import os
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pandas
import polars
import pyarrow
import pytest
from conftest import interrupt

import wirelane

# Packet i has the source 10.0.0.(i // 1000) and is in lane i % 2. It follows the previous packet
# after a millisecond.
PATH = os.environ["WIRELANE_TEST_STORE"]
START = 1_795_401_704_000_000_000
PACKETS = 6000
MS = 1_000_000


def times(source) -> list[int]:
    return pyarrow.table(source)["time"].cast(pyarrow.int64()).to_pylist()


def test_packets_of_all_lanes_come_in_order_of_time():
    with wirelane.read(PATH) as search:
        batches = [pyarrow.record_batch(batch) for batch in search.batches(rows=1000)]
        assert [len(batch) for batch in batches] == [1000] * 6
        assert search.ended
        stats = search.stats()
    assert stats["packets"] == PACKETS and stats["damage"] == []
    table = pyarrow.Table.from_batches(batches)
    assert table["time"].cast(pyarrow.int64()).to_pylist() == [START + i * MS for i in range(PACKETS)]
    assert set(table["queue"].to_pylist()[::2]) == {0} and set(table["queue"].to_pylist()[1::2]) == {1}
    assert table["source"].to_pylist() == [f"10.0.0.{i // 1000}" for i in range(PACKETS)]


def test_frames_are_those_of_batches():
    with wirelane.read(PATH, columns=["time", "data", "interface"], count=3000) as search:
        rows = pyarrow.table(search).to_pylist()
    with wirelane.read(Path(PATH), count=3000) as search:
        frames = list(search.frames())
    assert len(frames) == len(rows) == 3000
    assert [bytes(frame) for frame in frames] == [row["data"] for row in rows]
    assert [frame.time for frame in frames] == [START + i * MS for i in range(3000)]
    assert {(frame.queue, frame.class_, frame.interface) for frame in frames} == {(0, "rx", "eth0"), (1, "rx", "eth0")}
    assert all(frame.length == len(frame) == 1000 for frame in frames)


def test_a_host_is_found_without_reading_all():
    with wirelane.read(PATH, filter="src host 10.0.0.3") as search:
        assert times(search) == [START + i * MS for i in range(3000, 4000)]
        stats = search.stats()
    assert 0 < stats["extents_read"] < stats["extents"]


def test_times_are_asked_for_as_python_has_them():
    expected = [START + i * MS for i in range(2000, 2010)]
    begin, end = START + 2000 * MS, START + 2010 * MS
    assert times(wirelane.read(PATH, start=begin, end=end)) == expected
    zone = timezone(timedelta(hours=5))
    begin, end = (datetime.fromtimestamp(time // MS / 1000, zone) for time in (begin, end))
    assert times(wirelane.read(PATH, start=begin, end=end)) == expected
    stamp = pandas.Timestamp(START + 2000 * MS + 1, tz="UTC")
    assert times(wirelane.read(PATH, start=stamp, end=end)) == expected[1:]
    assert times(wirelane.read(PATH, end=0)) == []
    with pytest.raises(ValueError, match="time zone"):
        wirelane.read(PATH, start=datetime(2026, 11, 23))
    with pytest.raises(TypeError, match="datetime"):
        wirelane.read(PATH, start=1.5)
    with pytest.raises(wirelane.UsageError, match="not after the start"):
        wirelane.read(PATH, start=2, end=1)


def test_only_a_directory_is_found_by_time(capture, tmp_path):
    for source in (wirelane.read, wirelane.flows):
        with pytest.raises(wirelane.UsageError, match="wirelane record"):
            source(capture, start=1)
    with pytest.raises(wirelane.Error, match="not a store"):
        wirelane.read(tmp_path)
    with pytest.raises(wirelane.UsageError):
        wirelane.read(PATH, filter="udp and and")


def test_flows_of_a_directory():
    with wirelane.flows(PATH, filter="udp", start=START, end=START + 3000 * MS) as flows:
        frame = polars.DataFrame(flows)
        stats = flows.stats()
    assert stats["packets"] == stats["in_flows"] == 2700
    assert stats["flows"] == frame.height
    assert set(frame["source"]) | set(frame["destination"]) == {"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.1.0.1"}


def damaged(directory: Path) -> Path:
    """Copies the store, overwrites bytes in the middle of a segment with zeros, and returns the path of the segment."""
    shutil.copytree(PATH, directory)
    segment = sorted(directory.glob("*.pcapng"))[0]
    data = bytearray(segment.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    segment.write_bytes(data)
    return segment


def test_what_is_damaged_is_told_behind_all_others(tmp_path):
    segment = damaged(tmp_path / "store")
    found = 0
    with wirelane.read(tmp_path / "store") as search:
        with pytest.raises(wirelane.Error, match=segment.name):
            for batch in search:
                found += len(batch)
        assert list(search) == []
        stats = search.stats()
    assert PACKETS / 2 < found < PACKETS and found == stats["packets"]
    assert len(stats["damage"]) >= 1 and segment.name in stats["damage"][0]
    with pytest.raises(OSError, match=segment.name):
        pyarrow.table(wirelane.read(tmp_path / "store"))
    with wirelane.flows(tmp_path / "store") as flows:
        with pytest.raises(wirelane.Error, match=segment.name):
            list(flows)
        assert flows.stats()["packets"] == found


def test_a_search_ends_when_nobody_wants_it():
    with wirelane.read(PATH) as search:
        frames = search.frames()
        assert next(frames).time == START
    assert list(frames) == []
    with pytest.raises(ValueError, match="closed"):
        search.frame()
    search = wirelane.read(PATH)
    kept = search.frame()
    del search
    gc.collect()
    assert len(kept) == 1000
    search = wirelane.read(PATH)
    search.stop()
    assert sum(len(batch) for batch in search) <= PACKETS


WAITS = f"""
import wirelane
search = wirelane.read({PATH!r})
print("waits", flush=True)
while True:
    search.frame(timeout=1)
"""


def test_control_c_ends_a_program_that_reads():
    status, errors, seconds = interrupt(WAITS)
    assert status != 0 and "KeyboardInterrupt" in errors
    assert seconds < 3
