/* Counts packets until Ctrl-C, with a handle and a thread for each device:
 *
 *     wirelane exec -- ./queues wirelane:packet:eth0@0 wirelane:packet:eth0@1 */
#include <pcap/pcap.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#define MOST 64

struct counter {
	pcap_t *handle;
	pthread_t thread;
	unsigned long long packets;
};

static struct counter counters[MOST];
static int devices;

static void count(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *packet)
{
	((struct counter *)user)->packets++;
	(void)header, (void)packet;
}

static void *run(void *argument)
{
	pcap_loop(((struct counter *)argument)->handle, -1, count, argument);
	return NULL;
}

static void stop(int signal)
{
	(void)signal;
	for (int i = 0; i < devices; i++)
		pcap_breakloop(counters[i].handle);
}

int main(int argc, char **argv)
{
	char errors[PCAP_ERRBUF_SIZE];
	for (; devices < argc - 1 && devices < MOST; devices++) {
		counters[devices].handle = pcap_open_live(argv[devices + 1], 96, 1, 100, errors);
		if (!counters[devices].handle)
			return fprintf(stderr, "%s\n", errors), 1;
	}
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	for (int i = 0; i < devices; i++)
		pthread_create(&counters[i].thread, NULL, run, &counters[i]);
	for (int i = 0; i < devices; i++) {
		struct pcap_stat stat = {0};
		pthread_join(counters[i].thread, NULL);
		pcap_stats(counters[i].handle, &stat);
		printf("%s: %llu packets, %u dropped\n", argv[i + 1], counters[i].packets, stat.ps_drop);
		pcap_close(counters[i].handle);
	}
	return 0;
}
