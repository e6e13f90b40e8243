/* Sends long packets on a loopback and captures them: their lengths, one line each. */
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const int lengths[] = {60, 131008, 131009, 150000, 200000};

int main(int number, char **words)
{
    static u_char packet[200000];
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create("lo", error);
    if (handle == NULL || pcap_set_snaplen(handle, 262144) || pcap_set_timeout(handle, 100) ||
        pcap_set_immediate_mode(handle, number > 1 && strcmp(words[1], "immediate") == 0) ||
        pcap_set_buffer_size(handle, 1 << 20) || pcap_activate(handle) < 0) {
        printf("%s\n", handle == NULL ? error : pcap_geterr(handle));
        return 1;
    }
    int sender = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("lo")};
    packet[12] = 0x88, packet[13] = 0xb5;
    for (int i = 0; i < 5; i++)
        if (sendto(sender, packet, lengths[i], 0, (void *)&to, sizeof to) != lengths[i])
            perror("sendto");
    struct pcap_pkthdr *header;
    const u_char *bytes;
    for (int found = 0, status; found < 5 && (status = pcap_next_ex(handle, &header, &bytes)) >= 0;)
        if (status == 1 && header->len >= 60 && bytes[12] == 0x88 && bytes[13] == 0xb5) {
            printf("%u %u\n", header->caplen, header->len);
            found++;
        }
    pcap_close(handle);
    return 0;
}
