/* Opens a handle for each named device and reads from the devices before `-`. With a number in front, the parent reads this many
 * packets of the first device, then forks: the child reads, and the parent waits for it.
 *
 *     handles [PACKETS fork] DEVICE... [- DEVICE...]
 */
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 8

static void ignore(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes) {
    (void)user, (void)header, (void)bytes;
}

int main(int argc, char **argv) {
    char text[PCAP_ERRBUF_SIZE];
    pcap_t *handles[MOST];
    int count = 0, reads = -1, first = 1, before = 0;
    if (argc > 2 && strcmp(argv[2], "fork") == 0) {
        before = atoi(argv[1]);
        first = 3;
    }
    for (int i = first; i < argc && count < MOST; i++) {
        if (strcmp(argv[i], "-") == 0) {
            reads = count;
            continue;
        }
        pcap_t *handle = handles[count++] = pcap_create(argv[i], text);
        if (handle == NULL || pcap_set_timeout(handle, 10) || pcap_activate(handle) < 0 ||
            pcap_setnonblock(handle, 1, text) < 0) {
            fprintf(stderr, "%s: %s\n", argv[i], handle ? pcap_geterr(handle) : text);
            return 1;
        }
    }
    if (reads < 0)
        reads = count;
    printf("ready\n");
    fflush(stdout);
    if (first == 3) {
        while (before > 0) {
            int n = pcap_dispatch(handles[0], before, ignore, NULL);
            if (n < 0)
                return 2;
            before -= n;
        }
        pid_t child = fork();
        if (child > 0) {
            printf("child %d\n", (int)child);
            fflush(stdout);
            return waitpid(child, NULL, 0) == child ? 0 : 3;
        }
    }
    for (;;) {
        for (int i = 0; i < reads; i++)
            if (pcap_dispatch(handles[i], -1, ignore, NULL) < 0)
                return 4;
        poll(NULL, 0, 5);
    }
}
