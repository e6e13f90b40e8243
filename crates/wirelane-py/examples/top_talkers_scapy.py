"""The ten hosts of a capture file that sent the most bytes, with Scapy.

    python top_talkers_scapy.py trace.pcapng
"""

import sys
from collections import Counter

from scapy.layers.inet import IP
from scapy.sendrecv import sniff

from wirelane.scapy import Socket

counts, lengths = Counter(), Counter()


def add(packet):
    """Counts a packet."""
    if IP in packet:
        counts[packet[IP].src] += 1
        lengths[packet[IP].src] += packet.wirelen


with Socket(f"file:{sys.argv[1]}") as socket:
    sniff(opened_socket=socket, prn=add, store=False)
for host, length in lengths.most_common(10):
    print(host, counts[host], length)
