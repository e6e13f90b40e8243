"""The same questions of the rows of packets, asked of lines of JSON and of engines: a line of answers each."""

import hashlib
import json
import sys

lines, directory = sys.argv[1:]
SUMS = ["length", "captured", "octets", "payload", "tcp_flags", "ttl"]
COUNTS = ["vlan", "queue", "source_port", "tcp_sequence", "icmp_type", "tunnel"]


def digest(texts):
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()


def of_lines():
    rows = [json.loads(line) for line in open(lines)]
    return {
        "packets": len(rows),
        "sums": [sum(row.get(name) or 0 for row in rows) for name in SUMS],
        "counts": [sum(row.get(name) is not None for row in rows) for name in COUNTS],
        "hosts": digest({row["source"] for row in rows if "source" in row}),
        "sequences": digest({str(row["tcp_sequence"]) for row in rows if "tcp_sequence" in row}),
    }


def of_pyarrow():
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset(directory, format="parquet", partitioning="hive").to_table()
    assert str(table.schema.field("time").type) == "timestamp[ns, tz=UTC]", table.schema
    assert str(table.schema.field("source").type) == "string", table.schema
    assert {"date", "hour", "host"} <= set(table.schema.names), table.schema
    distinct = lambda name: {str(it) for it in table[name].to_pylist() if it is not None}
    return {
        "packets": table.num_rows,
        "sums": [pc.sum(table[name]).as_py() or 0 for name in SUMS],
        "counts": [pc.count(table[name]).as_py() for name in COUNTS],
        "hosts": digest(distinct("source")),
        "sequences": digest(distinct("tcp_sequence")),
    }


def of_duckdb():
    import duckdb

    packets = f"read_parquet('{directory}/**/*.parquet', hive_partitioning = true)"
    ask = lambda what: duckdb.sql(f"SELECT {what} FROM {packets}").fetchall()
    distinct = lambda name: [str(row[0]) for row in ask(f"DISTINCT {name}") if row[0] is not None]
    return {
        "packets": ask("count(*)")[0][0],
        "sums": list(ask(", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in SUMS))[0]),
        "counts": list(ask(", ".join(f"count({name})" for name in COUNTS))[0]),
        "hosts": digest(distinct("source")),
        "sequences": digest(distinct("tcp_sequence")),
    }


for name, answer in [("lines", of_lines), ("pyarrow", of_pyarrow), ("DuckDB", of_duckdb)]:
    print(json.dumps([name, answer()]))
