/* Names and numbers. */
#define GROUP "names"
#include "suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pcap/namedb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const char *string)
{
	return string ? string : "(null)";
}

TEST(names_of_link_types,
     "pcap_datalink_val_to_name pcap_datalink_val_to_description pcap_datalink_val_to_description_or_dlt "
     "pcap_datalink_name_to_val")
{
	for (int value = -2; value < 400; value++) {
		const char *name = pcap_datalink_val_to_name(value);
		say("%d: %s, %s", value, text(name), text(pcap_datalink_val_to_description(value)));
		say("or dlt %d: %s", value, text(pcap_datalink_val_to_description_or_dlt(value)));
		if (name)
			must(pcap_datalink_name_to_val(name) == value);
	}
	say("en10mb: %d", pcap_datalink_name_to_val("en10mb"));
	say("unknown: %d", pcap_datalink_name_to_val("unknown"));
	say("empty: %d", pcap_datalink_name_to_val(""));
}

TEST(names_of_time_stamps,
     "pcap_tstamp_type_val_to_name pcap_tstamp_type_val_to_description pcap_tstamp_type_name_to_val")
{
	for (int value = -2; value < 10; value++) {
		const char *name = pcap_tstamp_type_val_to_name(value);
		say("%d: %s, %s", value, text(name), text(pcap_tstamp_type_val_to_description(value)));
		if (name)
			must(pcap_tstamp_type_name_to_val(name) == value);
	}
	say("upper: %d", pcap_tstamp_type_name_to_val("ADAPTER"));
	say("unknown: %d", pcap_tstamp_type_name_to_val("unknown"));
}

TEST(texts_of_statuses, "pcap_statustostr pcap_strerror")
{
	for (int status = -20; status < 10; status++)
		say("%d: %s", status, pcap_statustostr(status));
	say("large: %s", pcap_statustostr(-2147483647 - 1));
	const int errors[] = {0, 1, ENOENT, EPERM, ENOBUFS, 9999, -1};
	for (int i = 0; i < 7; i++)
		say("errno %d: %s", errors[i], pcap_strerror(errors[i]));
}

TEST(versions, "pcap_lib_version")
{
	must(strncmp(pcap_lib_version(), "libpcap version ", 16) == 0);
	say("lib: %s", pcap_lib_version());
	extern char pcap_version[];
	say("data: %s", pcap_version);
}

TEST(addresses_and_networks, "pcap_nametoaddr pcap_nametoaddrinfo pcap_nametonetaddr")
{
	bpf_u_int32 **addresses = pcap_nametoaddr("127.0.0.1");
	say("address: %x", addresses && addresses[0] ? ntohl(*addresses[0]) : 0);
	say("unknown: %d", pcap_nametoaddr("no-such-host.invalid") != NULL);
	struct addrinfo *info = pcap_nametoaddrinfo("192.0.2.1");
	for (struct addrinfo *at = info; at; at = at->ai_next)
		say("family: %d", at->ai_family);
	freeaddrinfo(info);
	say("no info: %d", pcap_nametoaddrinfo("no-such-host.invalid") != NULL);
	say("loopback: %x", pcap_nametonetaddr("loopback"));
	say("no net: %x", pcap_nametonetaddr("no-such-net"));
}

TEST(ports_and_protocols, "pcap_nametoport pcap_nametoportrange pcap_nametoproto pcap_nametoeproto pcap_nametollc")
{
	const char *ports[] = {"http", "domain", "80", "0", "65535", "65536", "no-such-port", "", "-1"};
	for (int i = 0; i < 9; i++) {
		int port = -7, protocol = -7, high = -7;
		int status = pcap_nametoport(ports[i], &port, &protocol);
		say("port %s: %d, %d %d", ports[i], status, status ? port : 0, status ? protocol : 0);
		port = protocol = high = -7;
		status = pcap_nametoportrange(ports[i], &port, &high, &protocol);
		say("range %s: %d, %d %d", ports[i], status, status ? port : 0, status ? high : 0);
	}
	int low = 0, high = 0, protocol = 0;
	int status = pcap_nametoportrange("20-http", &low, &high, &protocol);
	say("20-http: %d, %d %d %d", status, low, high, protocol);
	status = pcap_nametoportrange("20-x", &low, &high, &protocol);
	say("20-x: %d", status);
	const char *names[] = {"ip", "ipv6", "tcp", "udp", "icmp", "arp", "rarp", "aarp", "iso", "stp", "netbeui", "none"};
	for (int i = 0; i < 12; i++) {
		say("proto %s: %d", names[i], pcap_nametoproto(names[i]));
		say("eproto %s: %d", names[i], pcap_nametoeproto(names[i]));
		say("llc %s: %d", names[i], pcap_nametollc(names[i]));
	}
}

/* Formerly declared in <pcap/namedb.h>, and still exported. */
struct eproto {
	const char *s;
	u_short p;
};
extern struct eproto eproto_db[];

TEST(protocols_of_ethernet, "pcap_nametoeproto")
{
	for (int i = 0; eproto_db[i].s; i++) {
		say("%s: %04x", eproto_db[i].s, eproto_db[i].p);
		must(pcap_nametoeproto(eproto_db[i].s) == eproto_db[i].p);
	}
}

TEST(ethernet_addresses, "pcap_ether_aton pcap_ether_hostton pcap_next_etherent")
{
	const char *names[] = {"02:57:4c:00:00:01", "2-57-4c-0-0-1", "0257.4c00.0001", "02574c000001", "0:0:0:0:0:0"};
	for (int i = 0; i < 5; i++) {
		u_char *address = pcap_ether_aton(names[i]);
		if (address)
			say("%s: %02x%02x%02x%02x%02x%02x", names[i], address[0], address[1], address[2], address[3],
			    address[4], address[5]);
		free(address);
	}
	u_char *host = pcap_ether_hostton("no-such-station");
	say("unknown: %d", host != NULL);
	free(host);

	const char *ethers = "# a comment\n02:57:4c:00:00:01 one\n\n2:57:4c:0:0:2\ttwo # more\nwrong line\n";
	FILE *file = fmemopen((void *)ethers, strlen(ethers), "r");
	struct pcap_etherent *entry;
	while ((entry = pcap_next_etherent(file)))
		say("entry: %s %02x%02x", entry->name, entry->addr[0], entry->addr[5]);
	fclose(file);
}
