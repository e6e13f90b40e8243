/* Packets, their metadata and changes to them, written to a file and read back. */
#include "expect.h"

#define QUEUE_0 WIRELANE_RX, 0
#define WHOLE_SECOND 1000000000

static wirelane_error error;
static char spec[4096];

/* An IPv4 packet with UDP, from 10.0.0.1 to 10.0.0.2, with correct checksums. */
static const uint8_t udp[] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,                               /* Ethernet */
    0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 1, 10, 0, 0, 2, /* IPv4 */
    0, 7, 0, 9, 0, 12, 0x26, 0xfd, 'a', 'b', 'c', 'd',                      /* UDP */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                               /* padding */
};

static uint16_t sum(const uint8_t *bytes, size_t len, uint32_t start) {
    for (size_t i = 0; i < len; i += 2)
        start += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    while (start >> 16)
        start = (start & 0xffff) + (start >> 16);
    return (uint16_t)start;
}

static int is_right(const uint8_t *packet) {
    uint32_t pseudo = sum(packet + 26, 8, 17 + 12);
    return sum(packet + 14, 20, 0) == 0xffff && sum(packet + 34, 12, pseudo) == 0xffff;
}

static wirelane_port open_port(const char *path, int transmit, const char *filter) {
    wirelane_port port;
    wirelane_options options;
    wirelane_options_init(&options, sizeof options);
    options.receive = !transmit;
    options.transmit = (uint8_t)transmit;
    options.filter = filter;
    snprintf(spec, sizeof spec, "file:%s", path);
    WORKS(wirelane_open(spec, &options, &port, &error));
    return port;
}

static void write_packets(const char *path) {
    wirelane_port port = open_port(path, 1, NULL);
    wirelane_info info;
    WORKS(wirelane_port_info(port, &info, sizeof info, &error));
    EXPECT(info.tx_ends == 1 && info.rx_ends == 0 && info.link_type == 1 && info.interface == NULL);
    EXPECT(strcmp(info.spec, spec) == 0 && strcmp(info.backend, "file") == 0 && !info.has_mac);
    wirelane_tx tx;
    wirelane_batch batch, other;
    const wirelane_packet *const *packets;
    WORKS(wirelane_port_tx(port, 0, &tx, &error));
    WORKS(wirelane_port_start(port, &error));
    WORKS(wirelane_batch_new(8, &batch, &error));
    WORKS(wirelane_batch_new(2, &other, &error));

    EXPECT(wirelane_tx_allocate(tx, batch, 6) == 6 && wirelane_batch_room(batch) == 2);
    for (size_t i = 0; i < 6; i++) {
        EXPECT(wirelane_batch_fill(batch, i, udp, sizeof udp) == WIRELANE_OK);
        EXPECT(wirelane_batch_set_timestamp(batch, i, (i + 1) * WHOLE_SECOND) == WIRELANE_OK);
    }
    /* Packet 1 gets another sender, 2 another port and is shorter, 3 a tag, 4 goes, 5 by way of the other batch. */
    const uint8_t address[] = {192, 168, 1, 1}, port_number[] = {0x12, 0x34};
    WORKS(wirelane_batch_rewrite(batch, 1, WIRELANE_FIELD_IPV4_SOURCE, address, 4, &error));
    WORKS(wirelane_batch_rewrite(batch, 2, WIRELANE_FIELD_DESTINATION_PORT, port_number, 2, &error));
    EXPECT(wirelane_batch_set_len(batch, 2, 46) == WIRELANE_OK);
    EXPECT(wirelane_batch_prepend(batch, 3, 4) == WIRELANE_OK);
    EXPECT(wirelane_batch_packets(batch, &packets) == 6 && packets[3]->len == sizeof udp + 4);
    memmove(packets[3]->data, packets[3]->data + 4, 12);
    memcpy(packets[3]->data + 12, (uint8_t[]){0x81, 0, 0, 5}, 4);
    EXPECT(wirelane_batch_retain(batch, (uint8_t[]){1, 1, 1, 1, 0, 1}) == 5);
    EXPECT(wirelane_batch_append(other, batch) == 2 && wirelane_batch_append(other, batch) == 0);
    EXPECT(wirelane_batch_packets(batch, NULL) == 3 && wirelane_batch_packets(other, NULL) == 2);
    EXPECT(wirelane_tx_transmit(tx, other) == 2);
    int left = wirelane_tx_transmit_all(tx, batch, WHOLE_SECOND, &error);
    EXPECT(left == 0 && error.status == WIRELANE_OK);
    EXPECT(wirelane_tx_send(tx, udp, sizeof udp) == 1);
    EXPECT(wirelane_tx_drain(tx, WHOLE_SECOND, &error) == 0 && wirelane_tx_pending(tx) == 0);

    wirelane_tx_stats stats;
    WORKS(wirelane_port_tx_stats(port, 0, &stats, sizeof stats, &error));
    EXPECT(stats.packets == 6 && stats.errors == 0);
    EXPECT(wirelane_batch_free(batch) == WIRELANE_OK && wirelane_batch_free(other) == WIRELANE_OK);
    EXPECT(wirelane_tx_close(tx) == WIRELANE_OK && wirelane_close(port) == WIRELANE_OK);
}

/* Every packet of the file, in one batch. */
static int read_packets(const char *path, const char *filter, wirelane_batch batch) {
    wirelane_port port = open_port(path, 0, filter);
    wirelane_rx rx;
    WORKS(wirelane_port_rx(port, 0, &rx, &error));
    WORKS(wirelane_port_start(port, &error));
    int wake = 0;
    while (!(wake & WIRELANE_WAKE_ENDED))
        if (wirelane_rx_receive(rx, batch) == 0)
            wake = wirelane_wait(&rx, 1, WHOLE_SECOND, &error);
    wirelane_readiness readiness;
    WORKS(wirelane_rx_readiness(rx, &readiness, &error));
    EXPECT(readiness.kind == WIRELANE_READY_END && readiness.descriptor == -1);
    EXPECT(wirelane_rx_close(rx) == WIRELANE_OK && wirelane_close(port) == WIRELANE_OK);
    return wirelane_batch_packets(batch, NULL);
}

static void read_back(const char *path) {
    wirelane_batch batch;
    const wirelane_packet *const *packets;
    WORKS(wirelane_batch_new(64, &batch, &error));
    EXPECT(read_packets(path, NULL, batch) == 6);
    /* They outlive their port. */
    EXPECT(wirelane_batch_packets(batch, &packets) == 6);
    for (int i = 0; i < 4; i++)
        EXPECT(packets[i]->timestamp == (uint64_t)(i + 1) * WHOLE_SECOND);
    EXPECT(packets[4]->timestamp == 6ull * WHOLE_SECOND);
    EXPECT(packets[0]->len == sizeof udp && memcmp(packets[0]->data, udp, sizeof udp) == 0);
    EXPECT(is_right(packets[0]->data) && is_right(packets[1]->data) && is_right(packets[2]->data));
    EXPECT(packets[1]->data[26] == 192 && packets[2]->data[36] == 0x12 && packets[2]->len == 46);
    EXPECT(packets[3]->len == sizeof udp + 4 && packets[3]->data[15] == 5);
    EXPECT(packets[0]->original_len == sizeof udp && packets[0]->queue_class == WIRELANE_TX);
    uint32_t hash;
    EXPECT(wirelane_batch_rx_hash(batch, 0, &hash) == 0 && wirelane_batch_is_unfinished(batch, 0) == 0);
    EXPECT(wirelane_batch_strip(batch, 0, 14) == WIRELANE_OK);
    EXPECT(wirelane_batch_packets(batch, &packets) == 6 && packets[0]->data[0] == 0x45);
    uint64_t time;
    EXPECT(wirelane_batch_hardware_timestamp(batch, 0, &time) == 0);
    EXPECT(wirelane_batch_release_first(batch, 2) == WIRELANE_OK);
    EXPECT(wirelane_batch_packets(batch, &packets) == 4 && packets[0]->len == 46);
    EXPECT(wirelane_batch_truncate(batch, 1) == WIRELANE_OK && wirelane_batch_packets(batch, NULL) == 1);
    EXPECT(wirelane_batch_clear(batch) == WIRELANE_OK && wirelane_batch_packets(batch, NULL) == 0);
    /* One sender only. The filter is a program, because compiling an expression needs libpcap. */
    EXPECT(read_packets(path, "4,32 0 0 26,21 0 1 3232235777,6 0 0 65535,6 0 0 0", batch) == 1);
    EXPECT(wirelane_batch_free(batch) == WIRELANE_OK);
}

/* Masks and filters of a running port, its counters and frames. */
static void control(void) {
    wirelane_port port;
    WORKS(wirelane_open("sim:2?count=1000", NULL, &port, &error));
    wirelane_mask mask, in_force;
    wirelane_mask_none(&mask);
    EXPECT(wirelane_mask_add(&mask, WIRELANE_RX, 1) == WIRELANE_OK);
    WORKS(wirelane_port_set_mask(port, &mask, &error));
    WORKS(wirelane_port_mask(port, &in_force, &error));
    EXPECT(memcmp(&mask, &in_force, sizeof mask) == 0);
    EXPECT(!wirelane_mask_selects(&mask, QUEUE_0) && wirelane_mask_selects(&mask, WIRELANE_RX, 1));
    WORKS(wirelane_mask_parse(&mask, WIRELANE_TX, "all", &error));
    EXPECT(mask.all_tx == 1 && wirelane_mask_selects(&mask, WIRELANE_TX, 4000) == 1);
    const wirelane_instruction nothing = {6, 0, 0, 0};
    WORKS(wirelane_port_set_program(port, &nothing, 1, &error));

    wirelane_info info;
    WORKS(wirelane_port_info(port, &info, sizeof info, &error));
    wirelane_rx ends[8];
    EXPECT(info.rx_ends >= 2 && info.rx_ends <= 8 && info.lossless == 1 && info.endless == 0);
    for (unsigned i = 0; i < info.rx_ends; i++)
        WORKS(wirelane_port_rx(port, i, &ends[i], &error));
    WORKS(wirelane_port_start(port, &error));
    wirelane_batch batch;
    WORKS(wirelane_batch_new(64, &batch, &error));
    int wake = 0, received = 0;
    while (!(wake & WIRELANE_WAKE_ENDED)) {
        for (unsigned i = 0; i < info.rx_ends; i++)
            received += wirelane_rx_receive(ends[i], batch);
        wake = wirelane_wait(ends, info.rx_ends, 0, &error);
    }
    EXPECT(received == 0);
    uint64_t filtered = 0;
    for (unsigned i = 0; i < info.rx_ends; i++) {
        wirelane_rx_stats stats;
        WORKS(wirelane_port_rx_stats(port, i, &stats, sizeof stats, &error));
        EXPECT(stats.packets == 0 && stats.received == stats.filtered);
        filtered += stats.queue == 1 ? stats.filtered : 0;
        EXPECT(wirelane_rx_close(ends[i]) == WIRELANE_OK);
    }
    EXPECT(filtered > 300 && filtered < 700);
    wirelane_frames frames;
    WORKS(wirelane_port_frames(port, &frames, sizeof frames, &error));
    EXPECT(frames.pool > 0 && frames.free == frames.pool && frames.held == 0);
    EXPECT(wirelane_batch_free(batch) == WIRELANE_OK && wirelane_close(port) == WIRELANE_OK);
}

/* A structure of another version of the library: shorter, or longer than this one knows. */
static void sizes(void) {
    struct {
        wirelane_rx_stats stats;
        uint64_t later;
    } stats;
    wirelane_port port;
    WORKS(wirelane_open("sim:1", NULL, &port, &error));
    memset(&stats, 0xaa, sizeof stats);
    WORKS(wirelane_port_rx_stats(port, 0, &stats.stats, sizeof stats, &error));
    EXPECT(stats.later == 0 && stats.stats.packets == 0);
    memset(&stats, 0xaa, sizeof stats);
    WORKS(wirelane_port_rx_stats(port, 0, &stats.stats, sizeof(uint64_t), &error));
    EXPECT(stats.stats.received == 0 && stats.stats.packets == 0xaaaaaaaaaaaaaaaa);
    EXPECT(wirelane_close(port) == WIRELANE_OK);

    struct {
        wirelane_options options;
        uint64_t later;
    } options;
    wirelane_options_init(&options.options, sizeof options);
    EXPECT(options.options.size == sizeof options && options.later == 0);
    WORKS(wirelane_open("sim:1", &options.options, &port, &error));
    EXPECT(wirelane_close(port) == WIRELANE_OK);
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    EXPECT(is_right(udp));
    write_packets(argv[1]);
    read_back(argv[1]);
    control();
    sizes();
    return 0;
}
