"""Frames: their properties, and that their memory is not used after it was freed."""

import gc
import os
import signal
import threading
import time

import pytest
from conftest import START, interrupt, run, udp, write_pcap

import wirelane


def test_frames_are_the_packets_of_the_file(capture):
    with wirelane.read(capture) as port:
        frames = list(port.frames())
        assert port.ended
    assert [bytes(frame) for frame in frames] == [udp(number) for number in range(1000)]
    assert [frame.time for frame in frames] == [START + 1000 * number for number in range(1000)]
    assert {(frame.length, len(frame)) for frame in frames} == {(60, 60)}


def test_a_frame_says_where_it_comes_from():
    with wirelane.open("sim:4", count=2000) as port:
        frames = list(port.frames())
    assert len(frames) == 2000
    assert {frame.queue for frame in frames if frame.class_ == "rx"} == {0, 1, 2, 3}
    assert {frame.class_ for frame in frames} <= {"rx", "tx", "other"}
    assert all(frame.interface for frame in frames)
    assert "wirelane.Frame" in repr(frames[0])


def test_a_frame_is_a_buffer_that_cannot_be_written(capture):
    with wirelane.read(capture, count=1) as port:
        [frame] = port.frames()
    view = memoryview(frame)
    assert view.readonly and view.nbytes == 60 and view.format == "B"
    assert bytes(view[:6]) == b"\x02\0\0\0\0\2"
    with pytest.raises(TypeError):
        view[0] = 1


def test_a_packet_that_was_cut_has_its_length(tmp_path):
    path = write_pcap(tmp_path / "cut.pcap", [udp(1, 1000)], snaplen=96)
    with wirelane.read(path) as port:
        [frame] = port.frames()
    assert (len(frame), frame.length) == (96, 1000)


def test_all_frames_may_be_kept():
    # More packets than the frames in a port's pools.
    with wirelane.open("sim:1", count=100_000) as port:
        frames = list(port.frames())
        held = port.stats()["frames"]["held"]
    assert len(frames) == 100_000
    assert held <= 64


def test_batches_and_frames_of_one_port_are_no_packet_twice(capture):
    with wirelane.read(capture) as port:
        first = [port.frame() for _ in range(10)]
        rows = len(port.batch(rows=100))
        rest = list(port.frames())
    assert (len(first), rows, len(rest)) == (10, 100, 890)
    assert bytes(rest[0]) == udp(110)


# Each packet is larger than the smallest block that the allocator maps separately here, once its
# heap is full. Freed memory is no longer mapped, so any access ends the process with SIGSEGV.
GUARDED = {"PYTHONMALLOC": "malloc", "MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_MMAP_MAX_": "1000000"}

KEEP = """
import ctypes, gc, zlib, wirelane
port = wirelane.open("sim:2?size=9000", count=2000)
kept = [(zlib.crc32(frame), memoryview(frame)) for frame in port.frames()]
rows = wirelane.open("sim:2?size=9000", count=100, columns=["time", "data"]).batch()
port.close()
del port
gc.collect()
assert len(kept) == 2000 and len(rows) == 100
assert all(view.nbytes > 8000 and zlib.crc32(view) == sum for sum, view in kept)
"""

# Many packets, because Python may map other memory at the addresses of some of them before the loop
# in the last lines.
MISUSE = KEEP + """
frames = list(wirelane.open("sim:1?size=9000", count=500).frames())
copies = [bytes(frame) for frame in frames]
addresses = [ctypes.cast(ctypes.c_char_p(copy), ctypes.c_void_p).value for copy in copies]
assert all(ctypes.string_at(address, 9) == copy[:9] for address, copy in zip(addresses, copies))
del frames, copies
print("freed", flush=True)
for address in addresses:
    ctypes.string_at(address, 9)
"""


def test_kept_frames_outlive_their_port():
    ended = run(KEEP, **GUARDED)
    assert ended.returncode == 0, ended.stderr


def test_the_guard_of_that_test_finds_a_use_after_free():
    ended = run(MISUSE, **GUARDED)
    assert (ended.returncode, ended.stdout) == (-signal.SIGSEGV, "freed\n"), ended


def test_a_view_keeps_its_bytes_when_the_frame_is_gone(capture):
    with wirelane.read(capture) as port:
        views = [memoryview(frame) for frame in port.frames()]
    gc.collect()
    assert [bytes(view) for view in views] == [udp(number) for number in range(1000)]


def test_waiting_releases_the_gil():
    with wirelane.open("sim:1?rate=1pps") as port:
        port.frame(timeout=0)
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.005)

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        port.set_filter("tcp")
        assert port.frame(timeout=0.5) is None
        done.set()
        thread.join()
    assert len(ticks) > 20


def test_threads_share_a_port():
    with wirelane.open("sim:4", count=50_000) as port:
        counts = []

        def count():
            counts.append(sum(1 for _ in port.frames()))

        threads = [threading.Thread(target=count, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(counts) == 50_000


def test_another_thread_closes_a_port_that_waits():
    port = wirelane.open("sim:1?rate=1pps", filter="tcp")
    ended = threading.Event()

    def wait():
        assert list(port.frames()) == []
        ended.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    time.sleep(0.2)
    port.close()
    thread.join(timeout=5)
    assert ended.is_set()
    with pytest.raises(ValueError, match="closed"):
        port.frame()


WAITS = """
import wirelane
port = wirelane.open("sim:1?rate=1pps", filter="tcp")
print("waits", flush=True)
"""


@pytest.mark.parametrize(
    "wait",
    ["port.frame()", "port.batch()", "list(port.frames())", "list(port)", "list(wirelane.flows('sim:1?rate=1pps'))"],
)
def test_control_c_ends_waiting(wait):
    status, errors, seconds = interrupt(WAITS + wait)
    assert status == -signal.SIGINT and "KeyboardInterrupt" in errors
    assert seconds < 3


def test_control_c_ends_opening(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = f"import wirelane\nprint('waits', flush=True)\nwirelane.read({str(fifo)!r})"
    status, errors, _ = interrupt(code)
    assert status == -signal.SIGINT and "KeyboardInterrupt" in errors
