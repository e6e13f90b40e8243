/* Captures, writes, compiles, reads: says what works, one line each. */
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>

static void capture(const char *path)
{
    char error[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create("wirelane:sim:2?count=50", error);
    if (handle == NULL || pcap_activate(handle) != 0) {
        printf("capture: %s\n", handle == NULL ? error : pcap_geterr(handle));
        return;
    }
    pcap_dumper_t *dumper = pcap_dump_open(handle, path);
    int status = dumper == NULL ? -1 : pcap_loop(handle, 100, pcap_dump, (u_char *)dumper);
    printf("capture: %d\n", status);
    if (dumper != NULL)
        pcap_dump_close(dumper);
    struct bpf_program program;
    status = pcap_compile(handle, &program, "udp port 9", 1, PCAP_NETMASK_UNKNOWN);
    printf("compile: %s\n", status == 0 ? "works" : pcap_geterr(handle));
    if (status == 0)
        pcap_freecode(&program);
    pcap_close(handle);
}

static void count(const char *name, pcap_t *handle, const char *error)
{
    if (handle == NULL) {
        printf("%s: %s\n", name, error);
        return;
    }
    struct pcap_pkthdr *header;
    const u_char *packet;
    int packets = 0, status;
    while ((status = pcap_next_ex(handle, &header, &packet)) == 1)
        packets++;
    printf("%s: %d packets of %s, then %d\n", name, packets,
           pcap_datalink_val_to_name(pcap_datalink(handle)), status);
    pcap_close(handle);
}

int main(int count_of_arguments, char **arguments)
{
    if (count_of_arguments != 2)
        return 2;
    char error[PCAP_ERRBUF_SIZE] = "";
    capture(arguments[1]);
    count("path", pcap_open_offline(arguments[1], error), error);
    count("stream", pcap_fopen_offline(fopen(arguments[1], "rb"), error), error);
    count("missing", pcap_open_offline("/nonexistent.pcap", error), error);
    pcap_t *dead = pcap_open_dead(DLT_EN10MB, 96);
    printf("dead: %s\n", dead == NULL ? "none" : "a handle");
    if (dead != NULL)
        pcap_close(dead);
    pcap_t *any = pcap_create("any", error);
    printf("any: %s\n", any == NULL ? error : "a handle");
    if (any != NULL)
        pcap_close(any);
    return 0;
}
