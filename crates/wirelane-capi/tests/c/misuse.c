/* Wrong calls return errors: closed handles, handles of another kind, NULL, and values out of range. */
#include "expect.h"

#define HANDLE WIRELANE_ERROR_HANDLE
#define ARGUMENT WIRELANE_ERROR_ARGUMENT

static wirelane_error error;

static void no_handle(uint64_t id) {
    wirelane_port port = {id};
    wirelane_rx rx = {id};
    wirelane_tx tx = {id};
    wirelane_batch batch = {id};
    wirelane_info info;
    wirelane_mask mask;
    wirelane_rx_stats rx_stats;
    wirelane_tx_stats tx_stats;
    wirelane_frames frames;
    wirelane_readiness readiness;
    const wirelane_packet *const *packets;
    uint32_t hash;
    uint64_t number;
    uint8_t byte = 0;

    EXPECT(wirelane_close(port) == HANDLE);
    EXPECT(wirelane_port_stop(port) == HANDLE);
    FAILS(HANDLE, wirelane_port_start(port, &error));
    FAILS(HANDLE, wirelane_port_rx(port, 0, &rx, &error));
    EXPECT(rx.id == 0);
    FAILS(HANDLE, wirelane_port_tx(port, 0, &tx, &error));
    EXPECT(tx.id == 0);
    rx.id = tx.id = id;
    FAILS(HANDLE, wirelane_port_info(port, &info, sizeof info, &error));
    FAILS(HANDLE, wirelane_port_mask(port, &mask, &error));
    wirelane_mask_all(&mask);
    FAILS(HANDLE, wirelane_port_set_mask(port, &mask, &error));
    FAILS(HANDLE, wirelane_port_set_filter(port, NULL, &error));
    FAILS(HANDLE, wirelane_port_set_program(port, NULL, 0, &error));
    FAILS(HANDLE, wirelane_port_rx_stats(port, 0, &rx_stats, sizeof rx_stats, &error));
    FAILS(HANDLE, wirelane_port_tx_stats(port, 0, &tx_stats, sizeof tx_stats, &error));
    FAILS(HANDLE, wirelane_port_frames(port, &frames, sizeof frames, &error));

    EXPECT(wirelane_rx_receive(rx, batch) == HANDLE);
    FAILS(HANDLE, wirelane_rx_readiness(rx, &readiness, &error));
    EXPECT(wirelane_rx_watermark(rx, &number) == HANDLE);
    EXPECT(wirelane_rx_count_unforwarded(rx, 1) == HANDLE);
    EXPECT(wirelane_rx_close(rx) == HANDLE);
    FAILS(HANDLE, wirelane_wait(&rx, 1, 0, &error));
    FAILS(HANDLE, wirelane_wait_any(&rx, 1, NULL, 0, 0, NULL, &error));

    EXPECT(wirelane_tx_allocate(tx, batch, 1) == HANDLE);
    EXPECT(wirelane_tx_transmit(tx, batch) == HANDLE);
    FAILS(HANDLE, wirelane_tx_transmit_all(tx, batch, 0, &error));
    EXPECT(wirelane_tx_send(tx, &byte, 1) == HANDLE);
    EXPECT(wirelane_tx_sent(tx, batch) == HANDLE);
    FAILS(HANDLE, wirelane_tx_flush(tx, &error));
    EXPECT(wirelane_tx_pending(tx) == HANDLE);
    FAILS(HANDLE, wirelane_tx_wait(tx, 0, &error));
    FAILS(HANDLE, wirelane_tx_drain(tx, 0, &error));
    EXPECT(wirelane_tx_close(tx) == HANDLE);

    EXPECT(wirelane_batch_free(batch) == HANDLE);
    EXPECT(wirelane_batch_packets(batch, &packets) == HANDLE);
    EXPECT(wirelane_batch_room(batch) == HANDLE);
    EXPECT(wirelane_batch_clear(batch) == HANDLE);
    EXPECT(wirelane_batch_release_first(batch, 1) == HANDLE);
    EXPECT(wirelane_batch_truncate(batch, 1) == HANDLE);
    EXPECT(wirelane_batch_retain(batch, &byte) == HANDLE);
    EXPECT(wirelane_batch_append(batch, batch) == HANDLE);
    EXPECT(wirelane_batch_fill(batch, 0, &byte, 1) == HANDLE);
    EXPECT(wirelane_batch_set_len(batch, 0, 1) == HANDLE);
    EXPECT(wirelane_batch_prepend(batch, 0, 1) == HANDLE);
    EXPECT(wirelane_batch_strip(batch, 0, 1) == HANDLE);
    EXPECT(wirelane_batch_set_timestamp(batch, 0, 1) == HANDLE);
    EXPECT(wirelane_batch_hardware_timestamp(batch, 0, &number) == HANDLE);
    EXPECT(wirelane_batch_rx_hash(batch, 0, &hash) == HANDLE);
    EXPECT(wirelane_batch_is_unfinished(batch, 0) == HANDLE);
    FAILS(HANDLE, wirelane_batch_rewrite(batch, 0, WIRELANE_FIELD_TTL, &byte, 1, &error));
}

static void opening(void) {
    wirelane_port port = {7};
    wirelane_options options;
    EXPECT(wirelane_options_init(NULL, sizeof options) == ARGUMENT);
    EXPECT(wirelane_options_forwarder(NULL, sizeof options) == ARGUMENT);
    EXPECT(wirelane_options_init(&options, SIZE_MAX) == ARGUMENT);

    FAILS(ARGUMENT, wirelane_open(NULL, NULL, &port, &error));
    EXPECT(port.id == 0);
    FAILS(ARGUMENT, wirelane_open("sim:1", NULL, NULL, &error));
    FAILS(WIRELANE_ERROR_USAGE, wirelane_open("", NULL, &port, &error));
    FAILS(WIRELANE_ERROR_USAGE, wirelane_open("sim:x", NULL, &port, &error));
    FAILS(WIRELANE_ERROR_USAGE, wirelane_open("sim:1?nonsense=1", NULL, &port, &error));
    EXPECT(strstr(error.text, "nonsense") != NULL);
    FAILS(WIRELANE_ERROR_FAILED, wirelane_open("file:/no/such/file", NULL, &port, &error));
    EXPECT(error.os_error == 2); /* ENOENT */
    FAILS(WIRELANE_ERROR_FAILED, wirelane_open("packet:wl-none", NULL, &port, &error));
    EXPECT(error.os_error == 19); /* ENODEV */
    EXPECT(wirelane_open("sim:x", NULL, &port, NULL) == WIRELANE_ERROR_USAGE);

    /* Uninitialised: zeros, or other bytes. */
    memset(&options, 0, sizeof options);
    FAILS(ARGUMENT, wirelane_open("sim:1", &options, &port, &error));
    memset(&options, 0xff, sizeof options);
    FAILS(ARGUMENT, wirelane_open("sim:1", &options, &port, &error));
    wirelane_options_init(&options, sizeof options);
    options.take = 9;
    FAILS(ARGUMENT, wirelane_open("sim:1", &options, &port, &error));
    wirelane_options_init(&options, sizeof options);
    options.filter = "this is no filter";
    FAILS(WIRELANE_ERROR_USAGE, wirelane_open("sim:1", &options, &port, &error));
    options.filter = "\xff\xfe";
    FAILS(ARGUMENT, wirelane_open("sim:1", &options, &port, &error));
    EXPECT(port.id == 0);
}

static void ends(void) {
    wirelane_port port;
    wirelane_rx rx, again;
    wirelane_tx tx;
    wirelane_batch batch;
    wirelane_options options;
    wirelane_options_init(&options, sizeof options);
    options.transmit = 1;
    WORKS(wirelane_open("sim:2?count=100", &options, &port, &error));
    WORKS(wirelane_port_rx(port, 1, &rx, &error));
    FAILS(ARGUMENT, wirelane_port_rx(port, 1, &again, &error));
    FAILS(ARGUMENT, wirelane_port_rx(port, 99, &again, &error));
    FAILS(ARGUMENT, wirelane_port_rx(port, 0, NULL, &error));
    FAILS(ARGUMENT, wirelane_port_tx(port, SIZE_MAX, &tx, &error));
    WORKS(wirelane_port_tx(port, 0, &tx, &error));
    FAILS(ARGUMENT, wirelane_batch_new(0, &batch, &error));
    FAILS(ARGUMENT, wirelane_batch_new(SIZE_MAX, &batch, &error));
    FAILS(ARGUMENT, wirelane_batch_new(1, NULL, &error));
    WORKS(wirelane_batch_new(1, &batch, &error));

    /* A handle of another kind. */
    EXPECT(wirelane_rx_receive((wirelane_rx){tx.id}, batch) == HANDLE);
    EXPECT(wirelane_rx_receive(rx, (wirelane_batch){rx.id}) == HANDLE);
    EXPECT(wirelane_close((wirelane_port){rx.id}) == HANDLE);
    EXPECT(wirelane_rx_close((wirelane_rx){port.id}) == HANDLE);

    wirelane_rx twice[] = {rx, rx};
    int negative = -1;
    FAILS(WIRELANE_ERROR_BUSY, wirelane_wait(twice, 2, 0, &error));
    FAILS(ARGUMENT, wirelane_wait(NULL, 2, 0, &error));
    FAILS(ARGUMENT, wirelane_wait(twice, SIZE_MAX, 0, &error));
    FAILS(ARGUMENT, wirelane_wait_any(&rx, 1, &negative, 1, 0, NULL, &error));
    FAILS(ARGUMENT, wirelane_wait_any(&rx, 1, NULL, 1, 0, NULL, &error));
    FAILS(ARGUMENT, wirelane_rx_readiness(rx, NULL, &error));
    EXPECT(wirelane_rx_watermark(rx, NULL) == ARGUMENT);
    EXPECT(wirelane_tx_send(tx, NULL, 60) == ARGUMENT);
    static uint8_t long_packet[100000];
    EXPECT(wirelane_tx_send(tx, long_packet, sizeof long_packet) == ARGUMENT);

    wirelane_mask mask;
    wirelane_mask_none(&mask);
    EXPECT(wirelane_mask_add(&mask, WIRELANE_RX, 77) == WIRELANE_OK);
    FAILS(WIRELANE_ERROR_USAGE, wirelane_port_set_mask(port, &mask, &error));
    FAILS(ARGUMENT, wirelane_port_set_mask(port, NULL, &error));
    FAILS(ARGUMENT, wirelane_port_mask(port, NULL, &error));
    FAILS(WIRELANE_ERROR_USAGE, wirelane_port_set_filter(port, "no filter", &error));
    FAILS(ARGUMENT, wirelane_port_set_program(port, NULL, 3, &error));
    FAILS(WIRELANE_ERROR_USAGE, wirelane_port_set_program(port, NULL, 0, &error));
    wirelane_instruction endless = {0xffff, 0, 0, 0};
    FAILS(WIRELANE_ERROR_USAGE, wirelane_port_set_program(port, &endless, 1, &error));
    wirelane_info info;
    FAILS(ARGUMENT, wirelane_port_info(port, NULL, sizeof info, &error));
    FAILS(ARGUMENT, wirelane_port_info(port, &info, SIZE_MAX, &error));
    wirelane_rx_stats stats;
    FAILS(ARGUMENT, wirelane_port_rx_stats(port, 99, &stats, sizeof stats, &error));

    /* Packets of an empty batch. */
    uint8_t byte = 0;
    EXPECT(wirelane_batch_fill(batch, 0, &byte, 1) == ARGUMENT);
    EXPECT(wirelane_batch_set_len(batch, 0, 1) == ARGUMENT);
    EXPECT(wirelane_batch_hardware_timestamp(batch, 0, NULL) == ARGUMENT);
    EXPECT(wirelane_batch_rx_hash(batch, 0, NULL) == ARGUMENT);
    EXPECT(wirelane_batch_is_unfinished(batch, 0) == ARGUMENT);
    EXPECT(wirelane_batch_append(batch, batch) == WIRELANE_ERROR_BUSY);
    EXPECT(wirelane_batch_packets(batch, NULL) == 0);
    EXPECT(wirelane_batch_release_first(batch, 5) == WIRELANE_OK);
    EXPECT(wirelane_batch_truncate(batch, 5) == WIRELANE_OK);
    EXPECT(wirelane_batch_retain(batch, NULL) == 0);
    EXPECT(wirelane_tx_allocate(tx, batch, 1) == 1);
    EXPECT(wirelane_batch_fill(batch, 0, NULL, 1) == ARGUMENT);
    EXPECT(wirelane_batch_fill(batch, 0, long_packet, sizeof long_packet) == ARGUMENT);
    EXPECT(wirelane_batch_set_len(batch, 0, SIZE_MAX) == ARGUMENT);
    EXPECT(wirelane_batch_prepend(batch, 0, SIZE_MAX) == ARGUMENT);
    EXPECT(wirelane_batch_strip(batch, 0, SIZE_MAX) == ARGUMENT);
    FAILS(ARGUMENT, wirelane_batch_rewrite(batch, 0, 99, &byte, 1, &error));
    FAILS(ARGUMENT, wirelane_batch_rewrite(batch, 0, WIRELANE_FIELD_SOURCE_MAC, &byte, 1, &error));
    FAILS(WIRELANE_ERROR_FAILED, wirelane_batch_rewrite(batch, 0, WIRELANE_FIELD_TTL, &byte, 1, &error));

    /* In any order, each once. */
    EXPECT(wirelane_close(port) == WIRELANE_OK);
    EXPECT(wirelane_close(port) == HANDLE);
    no_handle(port.id);
    EXPECT(wirelane_tx_close(tx) == WIRELANE_OK);
    EXPECT(wirelane_tx_close(tx) == HANDLE);
    EXPECT(wirelane_rx_close(rx) == WIRELANE_OK);
    EXPECT(wirelane_rx_close(rx) == HANDLE);
    EXPECT(wirelane_batch_free(batch) == WIRELANE_OK);
    EXPECT(wirelane_batch_free(batch) == HANDLE);
    no_handle(rx.id);
    no_handle(batch.id);
}

static void masks(void) {
    wirelane_mask mask;
    EXPECT(wirelane_mask_all(NULL) == ARGUMENT);
    EXPECT(wirelane_mask_none(NULL) == ARGUMENT);
    EXPECT(wirelane_mask_add(NULL, WIRELANE_RX, 0) == ARGUMENT);
    EXPECT(wirelane_mask_selects(NULL, WIRELANE_RX, 0) == ARGUMENT);
    FAILS(ARGUMENT, wirelane_mask_parse(NULL, WIRELANE_RX, "0", &error));
    wirelane_mask_none(&mask);
    FAILS(ARGUMENT, wirelane_mask_parse(&mask, WIRELANE_RX, NULL, &error));
    FAILS(ARGUMENT, wirelane_mask_parse(&mask, WIRELANE_OTHER, "0", &error));
    FAILS(WIRELANE_ERROR_USAGE, wirelane_mask_parse(&mask, WIRELANE_RX, "3-2", &error));
    EXPECT(wirelane_mask_add(&mask, WIRELANE_RX, 4096) == ARGUMENT);
    EXPECT(wirelane_mask_add(&mask, 3, 0) == ARGUMENT);
    EXPECT(wirelane_mask_selects(&mask, 3, 0) == ARGUMENT);
    EXPECT(wirelane_mask_selects(&mask, WIRELANE_RX, UINT32_MAX) == 0);
}

int main(void) {
    no_handle(0);
    no_handle(UINT64_MAX);
    no_handle(0x0000000100010000);
    no_handle(0x00000001ffffffff);
    opening();
    ends();
    masks();
    EXPECT(strcmp(wirelane_status_text(WIRELANE_OK), "it worked") == 0);
    EXPECT(wirelane_status_text(-1000)[0] != '\0' && wirelane_status_text(HANDLE)[0] != '\0');
    EXPECT(wirelane_abi_version() == WIRELANE_ABI_VERSION && wirelane_version()[0] != '\0');
    return 0;
}
