"""Batches: all libraries get the same rows, and none copies them."""

import gc

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute
import pytest
from conftest import START, interrupt, udp

import wirelane


def test_rows_are_the_packets_of_the_file(capture):
    with wirelane.read(capture) as port:
        batches = list(port)
    assert sum(len(batch) for batch in batches) == 1000
    table = pyarrow.table(batches[0])
    assert table.column_names == batches[0].column_names
    times = table["time"].cast(pyarrow.int64()).to_pylist()
    assert times == [START + 1000 * number for number in range(1000)]
    first = table.slice(7, 1).to_pylist()[0]
    assert (first["source"], first["source_port"]) == ("10.0.0.1", 1007)
    assert (first["destination"], first["destination_port"]) == ("10.0.0.2", 53)
    assert (first["protocol"], first["length"]) == (17, 60)


def test_batches_have_as_many_rows_as_asked_for(capture):
    with wirelane.read(capture) as port:
        assert [len(batch) for batch in port.batches(rows=300)] == [300, 300, 300, 100]


def test_columns_are_those_asked_for(capture):
    with wirelane.read(capture, columns=["length", "data"]) as port:
        assert port.column_names == ["length", "data"]
        [batch] = port
    rows = pyarrow.record_batch(batch).to_pylist()
    assert [row["data"] for row in rows] == [udp(number) for number in range(1000)]
    with pytest.raises(wirelane.UsageError, match='no column "colour"'):
        wirelane.read(capture, columns=["colour"])


def test_pyarrow_takes_a_port(capture):
    table = pyarrow.table(wirelane.read(capture))
    assert table.num_rows == 1000
    assert pyarrow.compute.sum(table["length"]).as_py() == 60_000


def test_polars_takes_a_batch_and_a_port(capture):
    [batch] = wirelane.read(capture)
    assert polars.DataFrame(batch).height == 1000
    frame = polars.DataFrame(wirelane.read(capture))
    assert frame["source_port"].to_list() == [1000 + number for number in range(1000)]


def test_duckdb_takes_a_port(capture):
    packets = wirelane.read(capture)  # noqa: F841: DuckDB finds it by its name
    rows = duckdb.sql("select count(*), sum(length), min(source) from packets").fetchall()
    assert rows == [(1000, 60_000, "10.0.0.1")]


def test_pandas_takes_a_batch(capture):
    [batch] = wirelane.read(capture, columns=["time", "source", "length"])
    if hasattr(pandas.DataFrame, "from_arrow"):
        frame = pandas.DataFrame.from_arrow(batch)
    else:
        frame = pyarrow.record_batch(batch).to_pandas()
    assert (len(frame), frame["length"].sum()) == (1000, 60_000)


def test_pandas_takes_a_port(capture):
    """As docs/python.md recommends."""
    port = wirelane.read(capture, columns=["time", "source", "length"])
    if hasattr(pandas.DataFrame, "from_arrow"):
        frame = pandas.DataFrame.from_arrow(port)
    else:
        frame = pyarrow.table(port).to_pandas()
    assert list(frame.columns) == ["time", "source", "length"]
    assert (len(frame), frame["length"].sum()) == (1000, 60_000)


def addresses(batch) -> list[int]:
    """The memory addresses of the columns of a batch."""
    columns = pyarrow.record_batch(batch).columns
    return [buffer.address for column in columns for buffer in column.buffers() if buffer]


def test_nothing_is_copied(capture):
    [batch] = wirelane.read(capture)
    # A copying import would have separate memory.
    assert addresses(batch) == addresses(batch) != []
    series = polars.DataFrame(batch)["length"]
    [_, lengths] = pyarrow.record_batch(batch)["length"].buffers()
    assert series.to_arrow().buffers()[1].address == lengths.address


def test_columns_outlive_batch_and_port():
    with wirelane.open("sim:2", count=20_000) as port:
        tables = [pyarrow.record_batch(batch) for batch in port]
    del port
    gc.collect()
    assert sum(table.num_rows for table in tables) == 20_000
    assert all(min(table["length"].to_pylist()) > 0 for table in tables)


def test_what_few_packets_come_does_not_wait_for_more():
    with wirelane.open("sim:1?rate=100pps") as port:
        batch = port.batch(wait=0.05)
    assert 0 < len(batch) < 100


def test_a_port_without_packets_has_a_schema(tmp_path, capture):
    table = pyarrow.table(wirelane.read(capture, filter="tcp port 1"))
    assert (table.num_rows, table.num_columns) == (0, len(wirelane.read(capture).column_names))


def test_flows(capture):
    with wirelane.flows(capture) as flows:
        table = pyarrow.table(flows)
        stats = flows.stats()
    assert table.num_rows == 1000
    assert (stats["packets"], stats["in_flows"], stats["flows"]) == (1000, 1000, 1000)
    row = table.to_pylist()[0]
    assert {row["source"], row["destination"]} == {"10.0.0.1", "10.0.0.2"}


def test_flows_of_a_port_end_when_they_are_closed():
    with wirelane.flows("sim:2?flows=50&rate=20kpps", idle=0.2, active=0.5) as flows:
        assert len(next(flows)) > 0
    assert flows.stats()["packets"] > 0
    assert list(flows) == []


def test_a_stream_tells_what_went_wrong(tmp_path, capture):
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(capture.read_bytes()[:-20])
    with pytest.raises(wirelane.Error, match="damaged.pcap"):
        list(wirelane.read(damaged))
    with pytest.raises(OSError, match="damaged.pcap"):
        pyarrow.table(wirelane.read(damaged))


STREAM = """
import pyarrow, wirelane
port = wirelane.open("sim:1?rate=100pps")
reader = pyarrow.RecordBatchReader.from_stream(port)
print("waits", flush=True)
for batch in reader:
    pass
"""


def test_control_c_ends_a_stream():
    status, errors, seconds = interrupt(STREAM)
    assert status != 0 and "KeyboardInterrupt" in errors
    assert seconds < 3
