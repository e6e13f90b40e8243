/* Version 1 of the interface, on which compiled programs rely. On a 64-bit machine. */
#include <wirelane.h>

#define SIZE(type, size) _Static_assert(sizeof(type) == size, #type)
#define PLACE(type, field, at) _Static_assert(offsetof(type, field) == at, #type "." #field)
#define VALUE(name, value) _Static_assert(name == value, #name)

VALUE(WIRELANE_ABI_VERSION, 1);

SIZE(wirelane_port, 8);
SIZE(wirelane_rx, 8);
SIZE(wirelane_tx, 8);
SIZE(wirelane_batch, 8);
SIZE(wirelane_error, 1024);
PLACE(wirelane_error, os_error, 4);
PLACE(wirelane_error, text, 8);
PLACE(wirelane_packet, data, 8);
PLACE(wirelane_packet, timestamp, 16);
PLACE(wirelane_packet, len, 24);
PLACE(wirelane_packet, original_len, 28);
PLACE(wirelane_packet, queue, 44);
PLACE(wirelane_packet, queue_class, 46);
SIZE(wirelane_mask, 1032);
PLACE(wirelane_mask, enabled, 0);
PLACE(wirelane_mask, other, 1);
PLACE(wirelane_mask, all_rx, 2);
PLACE(wirelane_mask, all_tx, 3);
PLACE(wirelane_mask, rx, 8);
PLACE(wirelane_mask, tx, 520);
SIZE(wirelane_instruction, 8);
SIZE(wirelane_readiness, 16);
PLACE(wirelane_readiness, descriptor, 8);
PLACE(wirelane_readiness, kind, 12);

/* These may become longer. */
PLACE(wirelane_options, size, 0);
PLACE(wirelane_options, filter, 8);
PLACE(wirelane_options, mask, 16);
PLACE(wirelane_options, ring_bytes, 24);
PLACE(wirelane_options, latency, 32);
PLACE(wirelane_options, snaplen, 40);
PLACE(wirelane_options, take, 44);
PLACE(wirelane_options, receive, 48);
PLACE(wirelane_options, transmit, 49);
PLACE(wirelane_options, outgoing, 50);
PLACE(wirelane_options, promiscuous, 51);
PLACE(wirelane_options, wait, 52);
PLACE(wirelane_options, take_management, 53);
PLACE(wirelane_options, forward, 54);
PLACE(wirelane_info, spec, 0);
PLACE(wirelane_info, backend, 8);
PLACE(wirelane_info, mode, 16);
PLACE(wirelane_info, interface, 24);
PLACE(wirelane_info, notes, 32);
PLACE(wirelane_info, speed, 40);
PLACE(wirelane_info, lateness, 48);
PLACE(wirelane_info, rx_ends, 56);
PLACE(wirelane_info, tx_ends, 60);
PLACE(wirelane_info, snaplen, 64);
PLACE(wirelane_info, link_type, 68);
PLACE(wirelane_info, lossless, 70);
PLACE(wirelane_info, endless, 71);
PLACE(wirelane_info, mac, 72);
PLACE(wirelane_info, has_mac, 78);
PLACE(wirelane_rx_stats, received, 0);
PLACE(wirelane_rx_stats, packets, 8);
PLACE(wirelane_rx_stats, bytes, 16);
PLACE(wirelane_rx_stats, filtered, 24);
PLACE(wirelane_rx_stats, dropped_kernel, 32);
PLACE(wirelane_rx_stats, dropped_ring_full, 40);
PLACE(wirelane_rx_stats, dropped_tx_full, 48);
PLACE(wirelane_rx_stats, merged, 56);
PLACE(wirelane_rx_stats, queue, 64);
PLACE(wirelane_rx_stats, queue_class, 68);
PLACE(wirelane_tx_stats, packets, 0);
PLACE(wirelane_tx_stats, bytes, 8);
PLACE(wirelane_tx_stats, errors, 16);
PLACE(wirelane_tx_stats, wrong_length, 24);
PLACE(wirelane_tx_stats, refused, 32);
PLACE(wirelane_tx_stats, copied, 40);
PLACE(wirelane_tx_stats, queue, 48);
PLACE(wirelane_frames, pool, 0);
PLACE(wirelane_frames, held, 48);

VALUE(WIRELANE_ERROR_USAGE, -1);
VALUE(WIRELANE_ERROR_FAILED, -2);
VALUE(WIRELANE_ERROR_BROKEN_PIPE, -3);
VALUE(WIRELANE_ERROR_HANDLE, -4);
VALUE(WIRELANE_ERROR_BUSY, -5);
VALUE(WIRELANE_ERROR_ARGUMENT, -6);
VALUE(WIRELANE_ERROR_INTERNAL, -7);

int main(void) { return wirelane_abi_version() != WIRELANE_ABI_VERSION; }
