/* Reads COUNT packets from devices, each with its own handle and thread, and prints the time.
 * SIGUSR1 starts it.
 *
 *     cc handles.c -lpcap -pthread -o handles && ./handles COUNT DEVICE...
 */
#include <pcap/pcap.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 16

static atomic_ulong total;
static unsigned long wanted;

/* Reads a byte of each packet, the least that any program does. */
static void look(u_char *sum, const struct pcap_pkthdr *header, const u_char *bytes) {
    *(unsigned *)sum += header->caplen > 12 ? bytes[12] : 0;
}

static void *read_packets(void *argument) {
    pcap_t *handle = argument;
    unsigned sum = 0;
    int n = 0;
    while (n >= 0 && atomic_load(&total) < wanted)
        if ((n = pcap_dispatch(handle, 1024, look, (u_char *)&sum)) > 0)
            atomic_fetch_add(&total, (unsigned long)n);
    return sum == 1 ? argument : NULL;
}

int main(int argc, char **argv) {
    char text[PCAP_ERRBUF_SIZE];
    pcap_t *handles[MOST];
    pthread_t threads[MOST];
    int count = argc - 2 < MOST ? argc - 2 : MOST, number;
    wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    sigset_t begin;
    sigemptyset(&begin);
    sigaddset(&begin, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &begin, NULL);
    for (int i = 0; i < count; i++) {
        pcap_t *handle = handles[i] = pcap_create(argv[2 + i], text);
        if (handle == NULL || pcap_set_snaplen(handle, 256) || pcap_set_timeout(handle, 10) ||
            pcap_set_buffer_size(handle, (256 << 20) / count) || pcap_activate(handle) < 0 ||
            pcap_setnonblock(handle, 1, text) < 0) {
            fprintf(stderr, "%s: %s\n", argv[2 + i], handle ? pcap_geterr(handle) : text);
            return 1;
        }
    }
    fprintf(stderr, "ready\n");
    sigwait(&begin, &number);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, read_packets, handles[i]);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
    printf("%lu packets in %.0f ns\n", atomic_load(&total), ns);
    for (int i = 0; i < count; i++)
        pcap_close(handles[i]);
    return 0;
}
