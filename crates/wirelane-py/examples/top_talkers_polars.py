"""The ten hosts of a capture file or store that sent the most bytes, with polars.

    python top_talkers_polars.py trace.pcapng
"""

import sys

import polars

import wirelane

packets = polars.DataFrame(wirelane.read(sys.argv[1], columns=["source", "length"]))
hosts = packets.group_by("source").agg(polars.len().alias("packets"), polars.sum("length"))
for host, count, length in hosts.sort("length", descending=True).head(10).iter_rows():
    print(host, count, length)
