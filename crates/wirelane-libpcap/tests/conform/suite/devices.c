/* Lists interfaces. */
#define GROUP "devices"
#include "suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pcap/namedb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const char *address_text(const struct sockaddr *address)
{
	static char texts[4][64];
	static unsigned next;
	char *text = texts[next++ % 4];
	if (!address)
		return "-";
	if (address->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, 64);
	else if (address->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, 64);
	else
		snprintf(text, 64, "family %d", address->sa_family);
	return text;
}

TEST(devices_are_listed, "pcap_findalldevs pcap_freealldevs")
{
	char errors[PCAP_ERRBUF_SIZE] = "before";
	pcap_if_t *list = NULL;
	must(pcap_findalldevs(&list, errors) == 0);
	must(errors[0] == 0 || strcmp(errors, "before") == 0);
	for (pcap_if_t *at = list; at; at = at->next) {
		say("%s: %s, %#x", at->name, at->description ? at->description : "-", at->flags);
		for (struct pcap_addr *address = at->addresses; address; address = address->next)
			say("%s: %s %s %s %s", at->name, address_text(address->addr), address_text(address->netmask),
			    address_text(address->broadaddr), address_text(address->dstaddr));
	}
	pcap_freealldevs(list);
	pcap_freealldevs(NULL);
}

TEST(what_is_listed_can_be_created, "pcap_findalldevs pcap_create")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_if_t *list = NULL;
	must(pcap_findalldevs(&list, errors) == 0);
	for (pcap_if_t *at = list; at; at = at->next) {
		pcap_t *p = pcap_create(at->name, errors);
		must(p != NULL);
		if (p)
			pcap_close(p);
	}
	pcap_freealldevs(list);
}

TEST(an_address_is_listed, "pcap_findalldevs")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_if_t *list = NULL;
	shell("ip address add 192.0.2.9/28 broadcast 192.0.2.15 dev %s", doomed);
	shell("ip address add 192.0.2.33 peer 192.0.2.34 dev %s", doomed);
	must(pcap_findalldevs(&list, errors) == 0);
	bool found = false;
	for (pcap_if_t *at = list; at; at = at->next) {
		if (strcmp(at->name, doomed) != 0)
			continue;
		found = true;
		say("flags: %#x", at->flags);
		for (struct pcap_addr *address = at->addresses; address; address = address->next)
			say("%s: %s %s %s", address_text(address->addr), address_text(address->netmask),
			    address_text(address->broadaddr), address_text(address->dstaddr));
	}
	must(found);
	pcap_freealldevs(list);
}

TEST(the_first_device, "pcap_lookupdev")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	char *name = pcap_lookupdev(errors);
	say("name: %s, %s", name ? name : "(null)", errors);
}

TEST(networks_of_devices, "pcap_lookupnet")
{
	const char *names[] = {device, peer, "lo", down, "any", "no-such-if", "", NULL,
			       "a-name-that-is-longer-than-an-interface-has", "nflog", "usbmon0"};
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char errors[PCAP_ERRBUF_SIZE] = "";
		bpf_u_int32 net = 99, mask = 99;
		int status = pcap_lookupnet(names[i], &net, &mask, errors);
		say("net of %u: %d, %08x %08x, %s", i, status, ntohl(net), ntohl(mask), errors);
	}
}

TEST(no_lookup_in_programs_that_initialise, "pcap_init pcap_lookupdev")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	say("wrong: %d, %s", pcap_init(99, errors), errors);
	errors[0] = 0;
	say("utf8: %d, %s", pcap_init(PCAP_CHAR_ENC_UTF_8, errors), errors);
	say("again: %d, %s", pcap_init(PCAP_CHAR_ENC_UTF_8, errors), errors);
	say("local: %d, %s", pcap_init(PCAP_CHAR_ENC_LOCAL, errors), errors);
	errors[0] = 0;
	char *name = pcap_lookupdev(errors);
	say("name: %s, %s", name ? name : "(null)", errors);
	/* Other functions work. */
	struct seen seen = {0};
	pcap_t *p = live();
	send_from(peer, 0, 3);
	must(pcap_loop(p, 3, see, (u_char *)&seen) == 0);
	pcap_close(p);
}
