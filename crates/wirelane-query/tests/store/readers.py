"""The same questions of the same flows, asked of lines of JSON and of engines: a line of answers each."""

import hashlib
import json
import os
import sys

lines, directory, endpoint, prefix, *engines = sys.argv[1:]
SUMS = ["packets", "octets", "payload", "reverse_packets", "reverse_octets", "handshake_rtt", "retransmissions"]
COUNTS = ["vlan", "tunnel", "source_port", "tcp_flags", "min_ttl"]
TIMES = ["flow_start", "flow_end"]


def digest(texts):
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()


def nanoseconds(text):
    from datetime import datetime, timezone

    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0") or 0)


def of_lines():
    rows = [json.loads(line) for line in open(lines)]
    protocols = {}
    for row in rows:
        number, packets = protocols.get(row["protocol"], (0, 0))
        protocols[row["protocol"]] = (number + 1, packets + row["packets"])
    return {
        "flows": len(rows),
        "sums": [sum(row.get(name) or 0 for row in rows) for name in SUMS],
        "counts": [sum(row.get(name) is not None for row in rows) for name in COUNTS],
        "identifiers": len({row["community_id"] for row in rows if "community_id" in row}),
        "hosts": digest({row["source"] for row in rows}),
        "protocols": sorted([key, *value] for key, value in protocols.items()),
        "first": min(nanoseconds(row["flow_start"]) for row in rows),
        "last": max(nanoseconds(row["flow_end"]) for row in rows),
    }


def of_pyarrow(path, filesystem):
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive").to_table()
    assert str(table.schema.field("flow_start").type) == "timestamp[ns, tz=UTC]", table.schema
    assert {"date", "hour", "host"} <= set(table.schema.names), table.schema
    groups = table.group_by("protocol").aggregate([("packets", "count"), ("packets", "sum")]).to_pydict()
    times = [table[name].cast("int64") for name in TIMES]
    return {
        "flows": table.num_rows,
        "sums": [pc.sum(table[name]).as_py() or 0 for name in SUMS],
        "counts": [pc.count(table[name]).as_py() for name in COUNTS],
        "identifiers": pc.count_distinct(table["community_id"]).as_py(),
        "hosts": digest(set(table["source"].to_pylist())),
        "protocols": sorted(map(list, zip(*(groups[name] for name in ["protocol", "packets_count", "packets_sum"])))),
        "first": pc.min(times[0]).as_py(),
        "last": pc.max(times[1]).as_py(),
    }


def of_duckdb(path):
    import duckdb

    flows = f"read_parquet('{path}/**/*.parquet', hive_partitioning = true)"
    ask = lambda what: duckdb.sql(f"SELECT {what} FROM {flows}").fetchall()[0]
    groups = f"SELECT protocol, count(*), sum(packets)::BIGINT FROM {flows} GROUP BY ALL ORDER BY ALL"
    assert ask("count(DISTINCT host) > 0 AND min(hour) IS NOT NULL")[0]
    first, last = ask("epoch_ns(min(flow_start)), epoch_ns(max(flow_end))")
    return {
        "flows": ask("count(*)")[0],
        "sums": list(ask(", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in SUMS))),
        "counts": list(ask(", ".join(f"count({name})" for name in COUNTS))),
        "identifiers": ask("count(DISTINCT community_id)")[0],
        "hosts": digest(row[0] for row in duckdb.sql(f"SELECT DISTINCT source FROM {flows}").fetchall()),
        "protocols": [list(row) for row in duckdb.sql(groups).fetchall()],
        "first": first,
        "last": last,
    }


def of_store():
    from pyarrow.fs import S3FileSystem

    keys = {"access_key": os.environ["AWS_ACCESS_KEY_ID"], "secret_key": os.environ["AWS_SECRET_ACCESS_KEY"]}
    store = S3FileSystem(endpoint_override=endpoint, scheme="http", region=os.environ["AWS_REGION"], **keys)
    return of_pyarrow(prefix, store)


def of_spark(path):
    from pyspark.sql import SparkSession, functions as f

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    # Spark's times are microseconds.
    spark = builder.config("spark.sql.legacy.parquet.nanosAsLong", "true").getOrCreate()
    table = spark.read.parquet(path)
    assert {"date", "hour", "host"} <= set(table.columns), table.columns
    ask = lambda *columns: [int(value or 0) for value in table.agg(*columns).first()]
    groups = table.groupBy("protocol").agg(f.count("*"), f.sum("packets")).collect()
    return {
        "flows": table.count(),
        "sums": ask(*(f.sum(name) for name in SUMS)),
        "counts": ask(*(f.count(name) for name in COUNTS)),
        "identifiers": ask(f.countDistinct("community_id"))[0],
        "hosts": digest(row[0] for row in table.select("source").distinct().collect()),
        "protocols": sorted([int(value) for value in row] for row in groups),
        "first": ask(f.min("flow_start"))[0],
        "last": ask(f.max("flow_end"))[0],
    }


ENGINES = {
    "pyarrow": lambda: of_pyarrow(directory, None),
    "pyarrow over S3": of_store,
    "DuckDB": lambda: of_duckdb(directory),
    "Spark": lambda: of_spark(directory),
}
print(json.dumps(["lines", of_lines()]))
for engine in engines:
    print(json.dumps([engine, ENGINES[engine]()]))
