"""Ports: masks, filters, counters, sending, errors."""

import time

import pytest
from conftest import interrupt, run, udp

import wirelane


def test_masks_change_while_packets_flow():
    with wirelane.open("sim:4?rate=100kpps", rx_queues="0,2-3", other=False, tx_queues="none") as port:
        assert (port.rx_queues, port.tx_queues, port.other) == ([0, 2, 3], [], False)
        assert {port.frame().queue for _ in range(2000)} == {0, 2, 3}
        port.rx_queues = [1]
        assert port.rx_queues == [1]
        # The rings still had packets of the previous mask.
        last = [port.frame().queue for _ in range(20_000)][-1000:]
        assert set(last) == {1}
        port.rx_queues = "all"
        assert port.rx_queues == "all"


def test_a_wrong_mask_changes_nothing():
    with wirelane.open("sim:2") as port:
        with pytest.raises(wirelane.UsageError):
            port.rx_queues = [7]
        with pytest.raises(wirelane.UsageError, match="is not a queue number"):
            port.rx_queues = "one"
        with pytest.raises(ValueError, match="5000"):
            port.rx_queues = [5000]
        assert port.rx_queues == "all"


def test_filters(capture):
    with wirelane.read(capture, filter="udp src port 1007") as port:
        assert [bytes(frame) for frame in port.frames()] == [udp(7)]
        assert port.stats()["totals"]["filtered"] == 999
    with wirelane.read(capture) as port:
        port.set_filter("udp src port 1007")
        assert [bytes(frame) for frame in port.frames()] == [udp(7)]


def test_counters_add_up():
    with wirelane.open("sim:4", count=5000) as port:
        assert sum(len(batch) for batch in port) == 5000
        stats = port.stats()
        assert port.info["mode"] == "sim"
    totals = stats["totals"]
    assert totals["received"] == totals["filtered"] + totals["delivered"] + totals["dropped"]
    assert sum(queue["packets"] for queue in stats["queues"]) == totals["delivered"] == 5000
    assert stats["frames"]["held"] == 0


def test_what_is_sent_to_a_file_is_what_is_read(tmp_path, capture):
    path = tmp_path / "copy.pcapng"
    with wirelane.read(capture) as port:
        assert wirelane.send(f"file:{path}", port.frames()) == 1000
    with wirelane.read(capture) as one, wirelane.read(path) as two:
        for frame in one.frames():
            other = two.frame()
            assert (bytes(frame), frame.time) == (bytes(other), other.time)
        assert two.frame() is None


def test_anything_with_a_buffer_is_sent():
    with wirelane.open("sim:2", receive=False, transmit=True) as port:
        frames = [udp(1), bytearray(udp(2)), memoryview(udp(3))]
        assert wirelane.send(port, frames) == 3
        assert port.send(iter(frames), queue=1) == 3
        assert port.stats()["totals"]["sent"] == 6
        with pytest.raises(wirelane.UsageError, match="no such TX queue"):
            port.send(frames, queue=9)
        with pytest.raises(TypeError):
            port.send(["text"])
        with pytest.raises(wirelane.UsageError, match="100000 bytes"):
            port.send([bytes(100_000)])


def test_a_failed_send_says_which_packet_and_how_many_were_sent(tmp_path):
    def failure(port, frames, kind):
        with pytest.raises(kind) as raised:
            port.send(frames)
        return raised.value.index, raised.value.sent

    with wirelane.open("sim:1", receive=False, transmit=True) as port:
        many = [udp(number) for number in range(100)]
        assert failure(port, [*many, bytes(100_000), udp(1)], wirelane.UsageError) == (100, 100)
        assert failure(port, [udp(1), "text"], TypeError) == (1, 0)
        assert port.send(many) == 100
        assert port.stats()["totals"]["sent"] == 200
    # A file port sends all of them.
    with wirelane.open(f"file:{tmp_path}/x.pcap", receive=False, transmit=True) as port:
        assert port.send(many) == 100
    error = wirelane.Error(None, "text")
    assert (error.index, error.sent) == (None, None)


def test_errors_are_those_of_the_library():
    with pytest.raises(FileNotFoundError, match="/nowhere/at.pcap") as raised:
        wirelane.read("/nowhere/at.pcap")
    assert isinstance(raised.value, wirelane.Error) and raised.value.errno == 2
    with pytest.raises(wirelane.NotFoundError, match="no such interface") as raised:
        wirelane.open("packet:wl-none")
    assert raised.value.errno == 19
    with pytest.raises(ValueError, match="sim:x") as raised:
        wirelane.open("sim:x")
    assert isinstance(raised.value, wirelane.UsageError)
    with pytest.raises(wirelane.UsageError, match="take='some'"):
        wirelane.open("sim:1", take="some")
    with pytest.raises(wirelane.UsageError):
        wirelane.open("sim:1", filter="udp and and")
    with pytest.raises(wirelane.Error):
        wirelane.open("packet:nosuchinterface"[:19])
    with pytest.raises(wirelane.UsageError, match="transmit=True"):
        wirelane.open("sim:1").send([udp(1)])
    with pytest.raises(ValueError, match="timeout"):
        wirelane.open("sim:1").frame(timeout=-1)


UNPRIVILEGED = """
import os, wirelane
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    wirelane.open("packet:lo")
except PermissionError as error:
    assert isinstance(error, wirelane.Error) and error.errno == 1, error
    print(error)
"""


def test_a_lack_of_privilege_is_a_permission_error():
    ended = run(UNPRIVILEGED)
    assert ended.returncode == 0 and "lo" in ended.stdout, ended


def test_a_closed_port_says_so(capture):
    with wirelane.read(capture) as port:
        frames = port.frames()
    assert list(frames) == []
    for use in (port.frame, port.batch, port.frames, port.__iter__, port.__arrow_c_stream__):
        with pytest.raises(ValueError, match="closed"):
            use()
    port.close()


def test_stop_leaves_what_came_before(capture):
    with wirelane.open("sim:1?rate=100kpps") as port:
        port.frame()
        port.stop()
        assert sum(1 for _ in port.frames()) < 100_000
        assert port.ended


@pytest.mark.parametrize("rate", [1000, 1000.0, "1kpps", "480kbit"])
def test_no_packet_leaves_before_its_time(rate):
    with wirelane.open("sim:1", receive=False, transmit=True) as port:
        since = time.monotonic()
        assert port.send((udp(n) for n in range(201)), rate=rate) == 201
        # The last packet is due 200 ms after the first.
        assert time.monotonic() - since >= 0.2
        assert port.stats()["totals"]["sent"] == 201


def test_frames_leave_at_their_own_pace(tmp_path, capture):
    with wirelane.read(capture) as port:
        frames = list(port.frames())
    # The last packet is 999 µs after the first; at a hundredth of the speed this is 100 ms.
    since = time.monotonic()
    assert wirelane.send("sim:1", frames, speed=0.01) == 1000
    assert time.monotonic() - since >= 0.0999
    with pytest.raises(wirelane.UsageError, match="no time of its own"):
        wirelane.send("sim:1", [udp(1)], speed=1)


def test_wrong_paces_are_refused():
    for wrong, words in [
        ({"rate": 0}, "no rate"),
        ({"rate": float("nan")}, "no rate"),
        ({"rate": "5"}, "5Mpps"),
        ({"rate": "50%"}, "link"),
        ({"speed": -1}, "no speed"),
        ({"rate": 1, "speed": 1}, "only one of them"),
    ]:
        with pytest.raises(wirelane.UsageError, match=words):
            wirelane.send("sim:1", [udp(1)], **wrong)
    with pytest.raises(TypeError, match="rate"):
        wirelane.send("sim:1", [udp(1)], rate=[1])


PACED = """
import wirelane
port = wirelane.open("sim:1", receive=False, transmit=True)
print("waits", flush=True)
port.send((bytes(60) for _ in range(1000)), rate=0.1)
"""


def test_control_c_ends_paced_sending():
    status, errors, seconds = interrupt(PACED)
    assert status != 0 and "KeyboardInterrupt" in errors
    assert seconds < 3
