/* Prints all devices with their properties, the default one, and the arguments' networks. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <pcap/pcap.h>
#include <stdio.h>

static void show(const char *what, const struct sockaddr *address)
{
	char text[INET6_ADDRSTRLEN] = "";
	if (!address)
		return;
	if (address->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof text);
	} else if (address->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, sizeof text);
	} else if (address->sa_family == AF_PACKET) {
		const struct sockaddr_ll *link = (const struct sockaddr_ll *)address;
		snprintf(text, sizeof text, "%d %02x:%02x", link->sll_ifindex, link->sll_addr[0], link->sll_addr[5]);
	}
	printf(" %s %d %s", what, address->sa_family, text);
}

int main(int argc, char **argv)
{
	char errors[PCAP_ERRBUF_SIZE];
	pcap_if_t *devices;
	if (pcap_findalldevs(&devices, errors) != 0) {
		printf("error: %s\n", errors);
		return 1;
	}
	for (pcap_if_t *device = devices; device; device = device->next) {
		printf("device %s: %s, flags %x\n", device->name,
		       device->description ? device->description : "(none)", device->flags);
		for (pcap_addr_t *entry = device->addresses; entry; entry = entry->next) {
			printf("  ");
			show("address", entry->addr);
			show("netmask", entry->netmask);
			show("broadcast", entry->broadaddr);
			show("destination", entry->dstaddr);
			printf("\n");
		}
	}
	pcap_freealldevs(devices);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	const char *first = pcap_lookupdev(errors);
	printf("default: %s\n", first ? first : errors);
	for (int i = 1; i < argc; i++) {
		bpf_u_int32 network = 7, netmask = 7;
		int status = pcap_lookupnet(argv[i], &network, &netmask, errors);
		printf("%s: %d %x %x %s\n", argv[i], status, ntohl(network), ntohl(netmask), status ? errors : "");
	}
	return 0;
}
