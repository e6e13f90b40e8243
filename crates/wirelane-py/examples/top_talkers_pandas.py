"""The ten hosts of a capture file or store that sent the most bytes, with pandas.

    python top_talkers_pandas.py trace.pcapng
"""

import sys

import pyarrow

import wirelane

table = pyarrow.table(wirelane.read(sys.argv[1], columns=["source", "length"]))
hosts = table.to_pandas().groupby("source")["length"].agg(["count", "sum"])
for host, count, length in hosts.nlargest(10, "sum").itertuples():
    print(host, count, length)
