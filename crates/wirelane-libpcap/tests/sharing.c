/* Captures on a device until a signal, says when it does, and prints every packet in hexadecimal digits. */
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static pcap_t *handle;

static void show(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *packet)
{
	(void)user;
	for (unsigned i = 0; i < header->caplen; i++)
		printf("%02x", packet[i]);
	printf("\n");
}

static void stop(int signal)
{
	(void)signal;
	pcap_breakloop(handle);
}

int main(int argc, char **argv)
{
	char errors[PCAP_ERRBUF_SIZE];
	struct pcap_stat stat;
	struct bpf_program program;
	if (argc < 2 || !(handle = pcap_open_live(argv[1], 262144, 1, 10, errors))) {
		fprintf(stderr, "%s\n", argc < 2 ? "which device?" : errors);
		return 1;
	}
	if (argc > 2 && (pcap_compile(handle, &program, argv[2], 1, 0) || pcap_setfilter(handle, &program))) {
		fprintf(stderr, "%s\n", pcap_geterr(handle));
		return 1;
	}
	signal(SIGINT, stop);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	int status = pcap_loop(handle, -1, show, NULL);
	if (pcap_stats(handle, &stat) != 0)
		return 2;
	printf("end %d: %u received, %u dropped\n", status, stat.ps_recv, stat.ps_drop);
	pcap_close(handle);
	return 0;
}
