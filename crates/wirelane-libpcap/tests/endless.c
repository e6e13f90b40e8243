/* Reads from a device with endless packets by every call that must return: a line for each. */
#include <pcap/pcap.h>
#include <stdio.h>

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
    (void)header, (void)bytes;
    ++*(unsigned long *)user;
}

int main(int number, char **words)
{
    char error[PCAP_ERRBUF_SIZE] = "";
    if (number != 3)
        return 2;
    pcap_t *handle = pcap_open_live(words[1], 65535, 1, 10, error);
    struct bpf_program program;
    if (handle == NULL || pcap_compile(handle, &program, words[2], 1, 0) != 0 ||
        pcap_setfilter(handle, &program) != 0) {
        printf("%s\n", handle == NULL ? error : pcap_geterr(handle));
        return 1;
    }
    for (int nonblock = 0; nonblock < 2; nonblock++) {
        pcap_setnonblock(handle, nonblock, error);
        int counts[] = {-1, 0, 1000000000};
        for (int i = 0; i < 3; i++) {
            unsigned long seen = 0;
            int status = pcap_dispatch(handle, counts[i], count, (u_char *)&seen);
            printf("%s %d\n", status == (int)seen ? "same" : "different", status);
        }
        struct pcap_pkthdr *header;
        const u_char *bytes;
        printf("next %d\n", pcap_next_ex(handle, &header, &bytes));
    }
    pcap_close(handle);
    return 0;
}
