"""Flows of a capture, made of what tshark says of each packet: another implementation of docs/flows.md.

Usage: oracle.py IDLE ACTIVE FILE: a JSON object per flow, then one with the packets that are in none.
"""

import json
import subprocess
import sys
import time as clock

LINGER = 1_000_000_000
HALF_LINGER = 5_000_000_000
FIELDS = """frame.time_epoch frame.protocols frame.interface_name ip.src ip.dst ip.proto ip.len ip.hdr_len ip.ttl
ip.dsfield.ecn ip.flags.mf ip.frag_offset ipv6.src ipv6.dst ipv6.plen ipv6.hlim ipv6.tclass.ecn
ipv6.fraghdr.more ipv6.fraghdr.offset tcp.srcport tcp.dstport tcp.seq_raw tcp.len tcp.flags tcp.window_size_value
udp.srcport udp.dstport udp.length icmp.type icmp.code icmpv6.type icmpv6.code vlan.id vxlan.vni geneve.vni gre.key
communityid""".split()
# Protocols between the outer and the inner addresses of a tunnel, and before the outer ones.
TUNNELS = {"udp", "vxlan", "geneve", "gre", "eth", "ethertype", "ieee8021ad", "ipv6.hopopts", "ipv6.dstopts", "vlan"}
LINKS = {"eth", "ethertype", "vlan", "ieee8021ad", "sll", "raw", "null"}
EXTENSIONS = {"ipv6.hopopts", "ipv6.dstopts", "ipv6.routing", "ipv6.fraghdr", "ah"}
FIN, SYN, RST, ACK = 1, 2, 4, 16
ANSWERS = {1: {8: 0, 0: 8, 13: 14, 14: 13, 15: 16, 16: 15, 17: 18, 18: 17, 10: 9, 9: 10},
           58: {128: 129, 129: 128, 133: 134, 134: 133, 135: 136, 136: 135, 130: 131, 131: 130, 139: 140, 140: 139,
                144: 145, 145: 144}}


def packets(path):
    options = ["ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE"]
    command = ["tshark", "-n", "-r", path, "--enable-protocol", "communityid", "-T", "fields", "-E", "occurrence=a",
               "-E", "aggregator=;"]
    command += [word for option in options for word in ("-o", option)]
    command += [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        values = (line + "\t" * len(FIELDS)).split("\t")
        yield {name: value.split(";") if value else [] for name, value in zip(FIELDS, values)}


def nanoseconds(text):
    seconds, _, fraction = text.partition(".")
    return int(seconds) * 1_000_000_000 + int((fraction + "000000000")[:9])


def layers(chain):
    """How many addresses of each family there are up to those of the flow, that family, and what follows it."""
    count, family, rest = {"ip": 0, "ipv6": 0}, None, []
    for position, name in enumerate(chain):
        if name in count:
            between = rest
            known = LINKS if family is None else TUNNELS
            if any(one not in known for one in between):
                break
            count[name] += 1
            family, rest = name, []
        else:
            rest = rest + [name]
    return count, family, [one for one in rest if one not in EXTENSIONS]


def number(text):
    return int(text, 16) if text.startswith("0x") else int(text)


def truth(text):
    return text in ("1", "True")


def decode(fields):
    chain = fields["frame.protocols"][0].split(":")
    count, family, rest = layers(chain)
    if family is None:
        return None
    at = count[family] - 1
    of = lambda name, at=at: fields[name][at]
    if family == "ip":
        octets, hops, ecn = int(of("ip.len")), int(of("ip.ttl")), int(of("ip.dsfield.ecn"))
        fragment = truth(of("ip.flags.mf")) or number(of("ip.frag_offset")) > 0
        protocol = int(of("ip.proto"))
    else:
        octets, hops, ecn = int(of("ipv6.plen")) + 40, int(of("ipv6.hlim")), int(of("ipv6.tclass.ecn"))
        fragment = any(map(truth, fields["ipv6.fraghdr.more"]))
        fragment = fragment or any(number(one) > 0 for one in fields["ipv6.fraghdr.offset"])
        protocol = {"tcp": 6, "udp": 17, "icmpv6": 58}.get(rest[0] if rest else "")
    packet = {
        "time": nanoseconds(fields["frame.time_epoch"][0]), "source": of(family + ".src"),
        "destination": of(family + ".dst"), "protocol": protocol, "octets": octets, "hops": hops, "ecn": ecn,
        "ports": (0, 0), "one_way": False, "tcp": None, "payload": None,
        "vlan": [int(one) for one in fields["vlan.id"][:1]], "community": None,
        "interface": (fields["frame.interface_name"] or [""])[0],
        "level": sum(count.values()),
        "tunnel": [fields[name] for name in ("vxlan.vni", "geneve.vni", "gre.key")],
    }
    if fragment or protocol not in (1, 6, 17, 58):
        return packet
    # tshark's community ID belongs to the last addresses in the packet.
    if chain.count("ip") + chain.count("ipv6") == packet["level"] and "nsh" not in chain:
        packet["community"] = (fields["communityid"] or [None])[0]
    if protocol == 6:
        packet["ports"] = (int(fields["tcp.srcport"][0]), int(fields["tcp.dstport"][0]))
        flags, window = number(fields["tcp.flags"][0]), int(fields["tcp.window_size_value"][0])
        packet["tcp"] = (number(fields["tcp.seq_raw"][0]), int(fields["tcp.len"][0]), flags, window)
        packet["payload"] = int(fields["tcp.len"][0])
    elif protocol == 17:
        # In a tunnel, the outer datagram is first.
        outer = packet["level"] > 1 and ("vxlan" in chain or "geneve" in chain)
        place = 1 if outer else 0
        packet["ports"] = (int(fields["udp.srcport"][place]), int(fields["udp.dstport"][place]))
    else:
        name = "icmp" if protocol == 1 else "icmpv6"
        kind, code = int(fields[name + ".type"][0]), int(fields[name + ".code"][0])
        answer = ANSWERS[protocol].get(kind)
        packet["one_way"] = answer is None
        packet["ports"] = (kind, code if answer is None else answer)
    return packet


class Half:
    def __init__(self):
        self.packets = self.octets = self.flags = self.zero = self.ce = self.late = self.again = 0
        self.start = self.end = None
        self.hops = []
        self.payload = 0

    def add(self, packet):
        self.packets += 1
        self.octets += packet["octets"]
        self.payload += packet["payload"] or 0
        time = packet["time"]
        self.start = time if self.start is None else min(self.start, time)
        self.end = time if self.end is None else max(self.end, time)
        self.hops.append(packet["hops"])
        self.ce += packet["ecn"] == 3
        if packet["tcp"]:
            self.flags |= packet["tcp"][2]
            self.zero += packet["tcp"][3] == 0 and not packet["tcp"][2] & RST


class Stream:
    """Sequence numbers of one direction: those that were seen, as intervals from the first one on."""

    def __init__(self):
        self.next = None
        self.holes = []

    def add(self, sequence, length):
        """'late', 'again' or None."""
        if self.next is None:
            self.next = sequence
        begin = (sequence - self.next + (1 << 31)) % (1 << 32) - (1 << 31)
        end = begin + length
        if length == 0:
            return None
        # Holes are relative to the next sequence number, so that they never wrap.
        verdict = None
        if begin > 0:
            if begin <= 1 << 24:
                self.holes.append((0, begin))
        elif begin < 0:
            verdict, left = "again", []
            for first, last in self.holes:
                if begin < last and end > first:
                    verdict = "late"
                    if begin > first:
                        left.append((first, begin))
                    if end < last:
                        left.append((end, last))
                else:
                    left.append((first, last))
            self.holes = left
        if end > 0:
            self.next = (self.next + end) % (1 << 32)
            self.holes = [(first - end, last - end) for first, last in self.holes]
        self.holes = self.holes[-8:]
        return verdict


class Flow:
    def __init__(self, packet, source):
        self.halves = {}
        self.source = source
        self.community = packet["community"]
        self.fins, self.closed = set(), False
        self.streams = {}
        self.reset()

    def reset(self):
        self.halves = {False: Half(), True: Half()}
        self.syn, self.rtt = {}, {}

    def is_half_closed(self):
        """Its only direction has ended."""
        return len(self.fins) == 1 and self.streams.keys() == self.fins

    def times(self):
        return [time for half in self.halves.values() for time in (half.start, half.end) if time is not None]

    def add(self, packet, back):
        half = self.halves[back]
        half.add(packet)
        if not packet["tcp"]:
            return
        sequence, length, flags, _ = packet["tcp"]
        if flags & RST:
            self.closed = True
            return
        stream = self.streams.setdefault(back, Stream())
        if back in self.syn and flags & ACK:
            began, after = self.syn.pop(back)
            if sequence == after and stream.next == after:
                self.rtt[back] = packet["time"] - began
        if flags & SYN and not flags & ACK:
            self.syn[back] = (packet["time"], (sequence + 1) % (1 << 32))
        if flags & FIN:
            self.fins.add(back)
            self.closed = self.closed or len(self.fins) == 2
        marks = bool(flags & SYN) + bool(flags & FIN)
        is_keep_alive = (stream.next is not None and (stream.next - sequence) % (1 << 32) == 1
                         and length <= 1 and not marks)
        if is_keep_alive:
            return
        verdict = stream.add(sequence, length + marks)
        half.late += verdict == "late"
        half.again += verdict == "again"


def written(time):
    """As wirelane writes it."""
    if time is None:
        return None
    second, rest = divmod(time, 1_000_000_000)
    return clock.strftime("%Y-%m-%dT%H:%M:%S.", clock.gmtime(second)) + f"{rest:09}Z"


def export(flow, key, why):
    there, back = flow.halves[False], flow.halves[True]
    if not there.packets + back.packets:
        return
    rtt = flow.rtt.get(False)
    if back.flags & (SYN | ACK) != SYN | ACK:
        rtt = None
    (source, sport), (destination, dport) = flow.source
    if key[1] in ANSWERS and dport == ANSWERS[key[1]].get(sport):
        dport = 0
    told = {"source": source, "destination": destination, "source_port": sport, "destination_port": dport,
            "protocol": key[1], "end_reason": why, "handshake_rtt": rtt, "community_id": flow.community,
            "vlan": key[2][0] if key[2] else None}
    for prefix, half in (("", there), ("reverse_", back)):
        told[prefix + "packets"], told[prefix + "octets"] = half.packets, half.octets
        told[("forward_" if not prefix else prefix) + "start"] = written(half.start)
        told[("forward_" if not prefix else prefix) + "end"] = written(half.end)
        if not half.packets:
            continue
        told[prefix + "congestion_experienced"] = half.ce
        told[prefix + "min_ttl"], told[prefix + "max_ttl"] = min(half.hops), max(half.hops)
        if key[1] == 6:
            told[prefix + "tcp_flags"], told[prefix + "zero_windows"] = half.flags, half.zero
            told[prefix + "out_of_order"], told[prefix + "retransmissions"] = half.late, half.again
            told[prefix + "payload"] = half.payload
    print(json.dumps({name: value for name, value in told.items() if value is not None}))


def main():
    idle, active, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    flows, none = {}, 0
    for fields in packets(path):
        packet = decode(fields)
        if packet is None:
            none += 1
            continue
        ends = [(packet["source"], packet["ports"][0]), (packet["destination"], packet["ports"][1])]
        pair = tuple(ends) if packet["one_way"] else frozenset(ends)
        key = (pair, packet["protocol"], tuple(packet["vlan"]), packet["interface"], packet["level"],
               str(packet["tunnel"]))
        flow, tcp = flows.get(key), packet["tcp"]
        if flow:
            times = flow.times()
            pause = packet["time"] - max(times) if times else 0
            why = None
            if flow.closed:
                begins = tcp and tcp[2] & SYN and not tcp[2] & ACK
                why = "ended" if begins or pause > LINGER else None
            elif flow.is_half_closed() and pause > min(HALF_LINGER, idle):
                why = "ended"
            elif pause > idle:
                why = "idle"
            elif times and packet["time"] - min(times) >= active:
                why = "active"
            if why:
                export(flow, key, why)
                flow.reset()
                if why != "active":
                    flow = None
        if not flow:
            answers = tcp and tcp[2] & (SYN | ACK) == SYN | ACK
            source = tuple(reversed(ends)) if answers else tuple(ends)
            flow = flows[key] = Flow(packet, source)
        flow.add(packet, flow.source[0] != ends[0])
    for key, flow in flows.items():
        export(flow, key, "ended" if flow.closed or flow.is_half_closed() else "forced")
    print(json.dumps({"none": none}))


main()
