"""Writes the flow files of this directory with snappi, the Python client of the Open Traffic Generator.

    pip install snappi && python3 make.py [DIRECTORY]

What is in them is Wirelane's own. They are what a user's script would hand to a traffic generator.
"""

import pathlib
import sys

import snappi


def config():
    made = snappi.api(location="localhost:1", version_check=False).config()
    made.ports.port(name="left", location="veth0").port(name="right", location="veth1")
    return made


def flow(made, name, *headers):
    one = made.flows.flow(name=name)[-1]
    one.tx_rx.port.tx_name = "left"
    one.tx_rx.port.rx_names = ["right"]
    for header in headers:
        getattr(one.packet, header)()
    return one


def ends(one):
    """Sets addresses, so that the packets are plausible."""
    for header in one.packet:
        kind = type(header).__name__
        if kind == "FlowEthernet":
            header.src.value = "02:00:00:00:00:0a"
            header.dst.value = "02:00:00:00:00:0b"
        if kind == "FlowIpv4":
            header.src.value = "198.18.0.1"
            header.dst.value = "198.19.0.1"
        if kind == "FlowIpv6":
            header.src.value = "2001:2::1"
            header.dst.value = "2001:2:0:1::1"
    return one


def quick():
    made = config()
    one = ends(flow(made, "quick", "ethernet", "ipv4", "udp"))
    one.packet[2].src_port.value = 5000
    one.packet[2].dst_port.value = 6000
    one.rate.pps = 1000
    one.duration.fixed_packets.packets = 100
    one.metrics.enable = True
    one.metrics.loss = True
    one.metrics.latency.enable = True
    made.options.port_options.location_preemption = True
    return made


def headers():
    made = config()
    one = ends(flow(made, "tagged", "ethernet", "vlan", "vlan", "ipv4", "tcp"))
    one.packet[1].tpid.value = 0x88A8
    one.packet[1].id.value = 100
    one.packet[2].id.increment.start = 200
    one.packet[2].id.increment.count = 10
    one.packet[2].priority.value = 5
    tcp = one.packet[4]
    tcp.src_port.value = 1024
    tcp.dst_port.value = 80
    tcp.ctl_syn.values = [1, 0, 0]
    tcp.ctl_ack.values = [0, 1, 1]
    tcp.ctl_psh.values = [0, 0, 1]
    tcp.seq_num.increment.start = 4294967290
    tcp.seq_num.increment.step = 3
    tcp.seq_num.increment.count = 9

    one = ends(flow(made, "vxlan", "ethernet", "ipv4", "udp", "vxlan", "ethernet", "ipv6", "udp"))
    one.size.fixed = 200
    one.packet[2].dst_port.value = 4789
    one.packet[3].vni.increment.start = 16777214
    one.packet[3].vni.increment.count = 4
    one.packet[4].src.decrement.start = "02:00:00:00:00:02"
    one.packet[4].src.decrement.count = 3
    one.packet[5].dst.increment.start = "2001:2::ffff"
    one.packet[5].dst.increment.step = "::1:0:0:0"
    one.packet[5].dst.increment.count = 5
    one.packet[5].flow_label.random.count = 7
    one.packet[5].traffic_class.values = [0, 185]

    one = ends(flow(made, "labels", "ethernet", "mpls", "mpls", "ipv4", "icmp"))
    one.packet[1].label.value = 1000
    one.packet[2].label.values = [17, 18, 19]
    one.packet[4].echo.identifier.value = 7
    one.packet[4].echo.sequence_number.increment.count = 65535
    one.packet[3].priority.tos.precedence.values = [1, 2]
    one.packet[3].priority.tos.throughput.value = 1
    one.packet[3].identification.increment.count = 100
    one.packet[3].dont_fragment.value = 1

    one = ends(flow(made, "gre", "ethernet", "ipv4", "gre", "ipv6", "icmpv6"))
    one.packet[2].checksum_present.value = 1
    one.packet[2].checksum.generated = "good"
    one.packet[1].priority.raw.values = [0, 255]
    one.size.fixed = 128

    one = ends(flow(made, "options", "ethernet", "ipv4", "udp"))
    one.packet[1].options.add()
    custom = one.packet[1].options.add().custom
    custom.type.copied_flag.value = 1
    custom.type.option_number.value = 30
    custom.value = "01020304"
    one.packet[1].priority.dscp.phb.value = one.packet[1].priority.dscp.phb.AF41
    one.packet[1].src.random.min = "198.18.0.0"
    one.packet[1].src.random.max = "198.18.255.255"
    one.packet[1].src.random.count = 1000
    one.packet[1].src.random.seed = 3
    one.packet[2].checksum.custom = 0
    one.size.fixed = 100

    one = ends(flow(made, "segments", "ethernet", "ipv6", "ipv6_extension_header", "ipv6", "tcp"))
    srh = one.packet[2].routing.segment_routing
    srh.segment_list.segment()[-1].segment.value = "2001:2:0:3::"
    srh.segment_list.segment()[-1].segment.value = "2001:2:0:2::"
    srh.tag.value = 9
    one.size.fixed = 256

    one = ends(flow(made, "arp", "ethernet", "arp"))
    one.packet[0].dst.value = "ff:ff:ff:ff:ff:ff"
    one.packet[1].sender_hardware_addr.value = "02:00:00:00:00:0a"
    one.packet[1].sender_protocol_addr.value = "198.18.0.1"
    one.packet[1].target_protocol_addr.increment.start = "198.18.0.2"
    one.packet[1].target_protocol_addr.increment.count = 200

    one = ends(flow(made, "custom", "ethernet", "custom"))
    one.packet[0].ether_type.value = 0x88B6
    one.packet[1].bytes = "0123456789abcdef"
    one.payload.fixed.pattern = "a55a"
    return made


def shapes():
    made = config()
    for index, predefined in enumerate(
        ["imix", "ipsec_imix", "ipv6_imix", "standard_imix", "tcp_imix"]
    ):
        one = ends(flow(made, predefined, "ethernet", "ipv4", "udp"))
        one.size.weight_pairs.predefined = predefined
        one.rate.mbps = 10 * (index + 1)
        one.duration.fixed_seconds.seconds = 2.5
    one = ends(flow(made, "steps", "ethernet", "ipv4", "udp"))
    one.size.increment.start = 64
    one.size.increment.end = 1518
    one.size.increment.step = 2
    one.rate.percentage = 12.5
    one = ends(flow(made, "random", "ethernet", "ipv4", "udp"))
    one.size.random.min = 100
    one.size.random.max = 1400
    one.rate.kbps = 64
    one.duration.continuous.delay.microseconds = 1.5
    one = ends(flow(made, "pairs", "ethernet", "ipv4", "udp"))
    one.size.weight_pairs.custom.add(size=64, weight=1)
    one.size.weight_pairs.custom.add(size=1518, weight=2.5)
    one.rate.bps = 1000000
    one = ends(flow(made, "bursts", "ethernet", "ipv4", "udp"))
    one.rate.gbps = 1
    one.duration.burst.bursts = 3
    one.duration.burst.packets = 16
    one.duration.burst.inter_burst_gap.nanoseconds = 1000000
    for pattern in ["increment_byte", "decrement_byte", "increment_word", "decrement_word"]:
        one = ends(flow(made, pattern, "ethernet", "ipv4", "udp"))
        one.payload.choice = pattern
        one.size.fixed = 700
        one.duration.fixed_packets.packets = 1
    one = ends(flow(made, "pattern", "ethernet", "ipv4", "udp"))
    one.payload.fixed.pattern = "cafe00"
    one.payload.fixed.repeat = False
    one.size.fixed = 80
    return made


def touch(thing):
    """Reads every field, so that snappi creates it with its default."""
    for name in getattr(thing, "_TYPES", {}):
        # Skips lists, and fields that exclude others.
        if name in ("metric_tags", "dst_usids", "options", "extension_headers", "segment_list"):
            continue
        if "choice" not in thing._TYPES:
            touch(getattr(thing, name))


def every():
    """One flow for each header of the model, with default fields."""
    made = config()
    for name in sorted(snappi.FlowHeader._TYPES):
        if name == "choice":
            continue
        one = flow(made, name, *([] if name == "ethernet" else ["ethernet"]))
        getattr(one.packet, name)()
        if name == "custom":
            one.packet[-1].bytes = "00"
        elif name == "snmpv2c":
            one.packet[-1].data.get_request
        elif name not in ("rsvp", "cfm", "lacp"):
            # These headers need more than defaults.
            touch(one.packet[-1])
    return made


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for make in (quick, headers, shapes, every):
        made = make()
        for form in ("yaml", "json"):
            (directory / f"{make.__name__}.{form}").write_text(made.serialize(form))


main()
