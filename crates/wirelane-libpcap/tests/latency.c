/* Captures on a device, in immediate mode or with a timeout, and prints the age of each packet in nanoseconds. */
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void show(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *packet)
{
	struct timespec now;
	(void)user;
	(void)packet;
	clock_gettime(CLOCK_REALTIME, &now);
	/* With nanoseconds, tv_usec has them. */
	printf("%lld\n", (long long)(now.tv_sec - header->ts.tv_sec) * 1000000000 + now.tv_nsec - header->ts.tv_usec);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char errors[PCAP_ERRBUF_SIZE];
	pcap_t *handle;
	int status;
	if (argc < 4 || !(handle = pcap_create(argv[1], errors))) {
		fprintf(stderr, "%s\n", argc < 4 ? "which device, timeout and mode?" : errors);
		return 1;
	}
	pcap_set_timeout(handle, atoi(argv[2]));
	pcap_set_immediate_mode(handle, atoi(argv[3]));
	pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO);
	if ((status = pcap_activate(handle)) < 0) {
		fprintf(stderr, "%s\n", pcap_statustostr(status));
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	while ((status = pcap_dispatch(handle, -1, show, NULL)) >= 0)
		;
	return status == PCAP_ERROR;
}
