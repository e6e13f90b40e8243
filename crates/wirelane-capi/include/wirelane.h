/*
 * libwirelane: multi-queue packet I/O.
 *
 * Functions return WIRELANE_OK, a count, or a negative WIRELANE_ERROR_...; a wirelane_error has a
 * text. Outputs and wirelane_errors need not be initialised before the call.
 *
 * Handles are numbers that are never reused. Using a handle that was closed or never opened (such
 * as a zero-initialised one), or that another thread is using exclusively, is an error in every
 * function.
 *
 * Threads: any thread may call functions with a wirelane_port at any time. One thread at a time
 * may use a wirelane_rx, wirelane_tx or wirelane_batch, which may move to another thread. Ends of
 * different queues share no state. After fork(), only one of the two processes may use the open
 * handles.
 */

#ifndef WIRELANE_H
#define WIRELANE_H

/* Made by cbindgen from crates/wirelane-capi; see cbindgen.toml. */

#include <stddef.h>
#include <stdint.h>
#if defined(__GNUC__)
#define WIRELANE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define WIRELANE_MUST_CHECK
#endif

// Success.
#define WIRELANE_OK 0

// The request itself is wrong: a malformed spec, an unknown option, a queue that does not exist.
#define WIRELANE_ERROR_USAGE -1

// The request was understood, but failed.
#define WIRELANE_ERROR_FAILED -2

// The reader of the output closed it.
#define WIRELANE_ERROR_BROKEN_PIPE -3

// The handle was closed, or was never one of this kind.
#define WIRELANE_ERROR_HANDLE -4

// Another thread is inside a function with the same handle.
#define WIRELANE_ERROR_BUSY -5

// An argument is NULL, or out of its range.
#define WIRELANE_ERROR_ARGUMENT -6

// A fault of the library itself. The handles can still be closed.
#define WIRELANE_ERROR_INTERNAL -7

// Packets that the interface received, by RX queue.
#define WIRELANE_RX 0

// Packets that the host sends, by TX queue.
#define WIRELANE_TX 1

// Packets without a queue.
#define WIRELANE_OTHER 2

// The queue of packets without one and, in a mask, every queue.
#define WIRELANE_NO_QUEUE 65535

// The host keeps all packets; the program gets copies.
#define WIRELANE_TAKE_NOTHING 0

// The program takes packets that the filter accepts; the host keeps the others.
#define WIRELANE_TAKE_MATCHING 1

// The program takes all packets. While there is a filter, it takes packets that the filter
// accepts.
#define WIRELANE_TAKE_ALL 2

// The value of an unknown counter.
#define WIRELANE_UNKNOWN UINT64_MAX

// The interface version of this header. It is incremented when programs must be recompiled. New
// functions, and new fields at the end of structures with a size, do not increment it.
#define WIRELANE_ABI_VERSION 1

// Ask again at once.
#define WIRELANE_READY_NOW 0

// Ask again when the descriptor is readable or the time has passed, or at once if the program has
// a CPU for this: a thread that sleeps may wake up too late for the next burst.
#define WIRELANE_READY_SOON 1

// Ask again when the descriptor is readable or the time has passed.
#define WIRELANE_READY_DESCRIPTOR 2

// Ask again after the time.
#define WIRELANE_READY_AFTER 3

// All packets have been received.
#define WIRELANE_READY_END 4

// Result of waiting: a receiving end may have packets.
#define WIRELANE_WAKE_PACKETS 1

// Result of waiting: the time has passed.
#define WIRELANE_WAKE_TIMEOUT 2

// Result of waiting: a descriptor of the program is ready.
#define WIRELANE_WAKE_DESCRIPTOR 4

// Result of waiting: all receiving ends have ended.
#define WIRELANE_WAKE_ENDED 8

// The usual number of packets in a batch.
#define WIRELANE_BATCH_DEFAULT 64

// The most packets of a batch.
#define WIRELANE_BATCH_MOST 65536

// The source MAC address, 6 bytes.
#define WIRELANE_FIELD_SOURCE_MAC 0

// The destination MAC address, 6 bytes.
#define WIRELANE_FIELD_DESTINATION_MAC 1

// The source address of IPv4, 4 bytes.
#define WIRELANE_FIELD_IPV4_SOURCE 2

// The destination address of IPv4, 4 bytes.
#define WIRELANE_FIELD_IPV4_DESTINATION 3

// The source address of IPv6, 16 bytes.
#define WIRELANE_FIELD_IPV6_SOURCE 4

// The destination address of IPv6, 16 bytes.
#define WIRELANE_FIELD_IPV6_DESTINATION 5

// The time to live of IPv4 or the hop limit of IPv6, 1 byte.
#define WIRELANE_FIELD_TTL 6

// The source port of TCP or UDP, 2 bytes.
#define WIRELANE_FIELD_SOURCE_PORT 7

// The destination port of TCP or UDP, 2 bytes.
#define WIRELANE_FIELD_DESTINATION_PORT 8

// Selects packets by queue. It is a plain value; initialise it with wirelane_mask_all() or
// wirelane_mask_none().
//
// The queues are bits: queue q is bit q % 64 of word q / 64.
typedef struct {
    // 0 lets every packet pass and ignores the masks.
    uint8_t enabled;
    // 1 selects packets without a queue.
    uint8_t other;
    // 1 selects every RX queue, including queues added later.
    uint8_t all_rx;
    // 1 selects every TX queue, including queues added later.
    uint8_t all_tx;
    // 0.
    uint32_t reserved;
    // Selected RX queues.
    uint64_t rx[64];
    // Selected TX queues.
    uint64_t tx[64];
} wirelane_mask;

// Options of wirelane_open(). wirelane_options_init() sets the defaults; then the program changes
// some fields.
//
// The program owns the structure and the objects that it points to; wirelane_open() only reads
// them. In fields that are 0 or 1, any non-zero value means 1.
typedef struct {
    // Size of the structure in bytes, in the program's version.
    size_t size;
    // Which packets to receive: an expression of pcap-filter(7), or the output of `tcpdump -ddd`.
    // NULL: all.
    const char *filter;
    // Which queues and classes to select. NULL: all.
    const wirelane_mask *mask;
    // Bytes of receive memory per queue. 0: the backend's default.
    uint64_t ring_bytes;
    // How long a received packet may wait for others, in nanoseconds, approximately. 0: the
    // backend's default.
    uint64_t latency;
    // The most bytes to keep of a packet.
    uint32_t snaplen;
    // Which packets to take from the host (only `xdp:` takes any): WIRELANE_TAKE_...
    uint32_t take;
    // 1: open for receiving. The default.
    uint8_t receive;
    // 1: open for transmitting.
    uint8_t transmit;
    // 1: packets that the host itself sends can be selected. The default.
    uint8_t outgoing;
    // 1: promiscuous mode while the port is open.
    uint8_t promiscuous;
    // 1: if the interface is removed, wait for a new one with its name (`packet:` only).
    uint8_t wait;
    // 1: with `take`, also take the packets that keep the host reachable: ARP, neighbour
    // discovery, SSH, DNS and DHCP.
    uint8_t take_management;
    // 1: the program forwards. Packets arrive intact as on the wire, or marked for segmentation,
    // which the port's transmitting ends do. Use wirelane_options_forwarder(), which also sets the
    // other fields for forwarding.
    uint8_t forward;
    // 0.
    uint8_t reserved;
} wirelane_options;

// The error of a call. The caller owns it, usually on its stack; nothing has to be freed.
//
// Functions with an `error` argument always set it. With NULL, a caller only gets the status.
typedef struct {
    // WIRELANE_OK or one of WIRELANE_ERROR_..., the same as the function returned.
    int32_t status;
    // The errno of the failed system call, or 0.
    int32_t os_error;
    // One line: the object, the cause and, after a semicolon, the remedy. Empty without an error.
    char text[1016];
} wirelane_error;

// A port: an interface, a file or a simulation, opened by wirelane_open(). Several threads may use
// it at once. A zero-initialised handle is invalid.
typedef struct {
    // A unique number.
    uint64_t id;
} wirelane_port;

// A receiving end. One thread at a time may use it.
typedef struct {
    // A unique number.
    uint64_t id;
} wirelane_rx;

// A transmitting end. One thread at a time may use it.
typedef struct {
    // A unique number.
    uint64_t id;
} wirelane_tx;

// Describes an open port. The texts belong to the port and are valid until it is closed.
typedef struct {
    // The spec that the program passed.
    const char *spec;
    // Its backend: `sim`, `file`, `packet`, `xdp` or `tap`.
    const char *backend;
    // Its mode, such as `tpacket-v3` or `zerocopy`.
    const char *mode;
    // Name of the network interface; NULL without one.
    const char *interface;
    // Notes for the user, one per line; may be empty.
    const char *notes;
    // Link speed in bits per second; WIRELANE_UNKNOWN without one.
    uint64_t speed;
    // The most nanoseconds between a packet's time and its delivery.
    uint64_t lateness;
    // Number of receiving ends.
    uint32_t rx_ends;
    // Number of transmitting ends.
    uint32_t tx_ends;
    // The most bytes kept of a packet.
    uint32_t snaplen;
    // Link type as in capture files; 1 is Ethernet.
    uint16_t link_type;
    // 1: the port waits for the program, so that a slow program loses no packets.
    uint8_t lossless;
    // 1: packets may arrive until the port is stopped.
    uint8_t endless;
    // MAC address of the interface.
    uint8_t mac[6];
    // 1: the interface has a MAC address.
    uint8_t has_mac;
    // 0.
    uint8_t reserved;
} wirelane_info;

// One instruction of a classic BPF program, like `struct bpf_insn` and `struct sock_filter`.
typedef struct {
    // Its operation.
    uint16_t code;
    // Jump offset if true.
    uint8_t jt;
    // Jump offset if false.
    uint8_t jf;
    // Its operand.
    uint32_t k;
} wirelane_instruction;

// The counters of a receiving end. Each may be WIRELANE_UNKNOWN.
typedef struct {
    // Packets that the masks selected: filtered, delivered and dropped together.
    uint64_t received;
    // Packets delivered to the program.
    uint64_t packets;
    // Their bytes on the wire.
    uint64_t bytes;
    // Packets that a filter rejected.
    uint64_t filtered;
    // Packets lost in the kernel, for lack of ring space.
    uint64_t dropped_kernel;
    // Packets lost in user space, for lack of frames.
    uint64_t dropped_ring_full;
    // Packets dropped because a TX queue was full, counted by wirelane_rx_count_unforwarded().
    uint64_t dropped_tx_full;
    // Received packets that were merged into the frame of another one.
    uint64_t merged;
    // The queue, or WIRELANE_NO_QUEUE.
    uint32_t queue;
    // WIRELANE_RX, WIRELANE_TX or WIRELANE_OTHER.
    uint32_t queue_class;
} wirelane_rx_stats;

// The counters of a transmitting end.
typedef struct {
    // Frames handed to the interface.
    uint64_t packets;
    // Their bytes.
    uint64_t bytes;
    // Frames that could not be sent.
    uint64_t errors;
    // Errors because the interface does not accept frames of this length.
    uint64_t wrong_length;
    // Errors because the kernel refused to send the frame.
    uint64_t refused;
    // Frames that were copied, because the port cannot send from their memory.
    uint64_t copied;
    // The queue.
    uint32_t queue;
    // 0.
    uint32_t reserved;
} wirelane_tx_stats;

// Number of frames of a port in each place. `pool` is the sum of the others.
typedef struct {
    // All frames.
    uint64_t pool;
    // Free frames.
    uint64_t free;
    // Waiting for the interface to fill them.
    uint64_t fill;
    // Filled and not yet received.
    uint64_t rx;
    // Waiting to be transmitted, or being transmitted.
    uint64_t tx;
    // Transmitted and not yet reclaimed.
    uint64_t completion;
    // Held by the program.
    uint64_t held;
} wirelane_frames;

// A list of packets. One thread at a time may use it.
typedef struct {
    // A unique number.
    uint64_t id;
} wirelane_batch;

// When to ask a receiving end again.
typedef struct {
    // The longest time to wait, in nanoseconds.
    uint64_t nanoseconds;
    // The descriptor to poll for reading, which belongs to the port; -1 if there is none.
    int32_t descriptor;
    // WIRELANE_READY_...
    uint32_t kind;
} wirelane_readiness;

// One packet of a batch, in the library's own record, for reading. It changes with the packet, and
// is valid until the packet leaves the batch.
typedef struct {
    // Private to the library.
    const void *owner;
    // Its bytes, from the Ethernet header on, without the frame check sequence. The program may
    // change them.
    uint8_t *data;
    // Time of capture in nanoseconds since 1970; 0 if the port has no time.
    uint64_t timestamp;
    // Number of bytes at `data`.
    uint32_t len;
    // Bytes on the wire; more than `len` if the snap length cut it.
    uint32_t original_len;
    // Private to the library.
    uint32_t reserved[3];
    // Its queue, unless `queue_class` is WIRELANE_OTHER.
    uint16_t queue;
    // WIRELANE_RX, WIRELANE_TX or WIRELANE_OTHER.
    uint8_t queue_class;
    // Private to the library.
    uint8_t marks;
} wirelane_packet;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The interface version of the loaded library, to compare with WIRELANE_ABI_VERSION.
uint32_t wirelane_abi_version(void);

// The version of the loaded library, such as "0.1.0".
const char *wirelane_version(void);

// A short, static text for a status.
const char *wirelane_status_text(int status);

// Sets the options to the defaults: receive copies of all packets. `size` is
// sizeof(wirelane_options).
int wirelane_options_init(wirelane_options *options, size_t size);

// Sets the options for forwarding. The port is promiscuous and can transmit. Packets arrive within
// about a millisecond, as on the wire or marked for segmentation. The port does not receive the
// host's own packets.
int wirelane_options_forwarder(wirelane_options *options, size_t size);

// Selects everything, in all three classes.
int wirelane_mask_all(wirelane_mask *mask);

// Selects nothing.
int wirelane_mask_none(wirelane_mask *mask);

// Replaces the queues of class WIRELANE_RX or WIRELANE_TX. `queues` is "all", "none" or a list
// such as "0,2-3".
WIRELANE_MUST_CHECK
int wirelane_mask_parse(wirelane_mask *mask,
                        uint32_t queue_class,
                        const char *queues,
                        wirelane_error *error);

// Selects one queue of WIRELANE_RX or WIRELANE_TX, or all queues with WIRELANE_NO_QUEUE; or, with
// WIRELANE_OTHER, packets without a queue.
int wirelane_mask_add(wirelane_mask *mask, uint32_t queue_class, uint32_t queue);

// Returns 1 if the mask selects packets of this class and queue, otherwise 0.
int wirelane_mask_selects(const wirelane_mask *mask, uint32_t queue_class, uint32_t queue);

// Opens the port that `spec` names, such as "packet:eth0@0-3" or "sim:4?count=1000". `options` may
// be NULL for the defaults. No packet is received before wirelane_port_start().
//
// Close it with wirelane_close().
WIRELANE_MUST_CHECK
int wirelane_open(const char *spec,
                  const wirelane_options *options,
                  wirelane_port *port,
                  wirelane_error *error);

// Stops the port and closes it. Ends taken from it stay open: the receiving ones deliver the
// packets in their rings, and then end. The program must close each.
int wirelane_close(wirelane_port port);

// Starts receiving. Call it when every thread is ready.
WIRELANE_MUST_CHECK int wirelane_port_start(wirelane_port port, wirelane_error *error);

// Stops receiving. The packets in the rings can still be received; then the receiving ends have
// ended. Do not call it in signal handlers: it takes locks.
int wirelane_port_stop(wirelane_port port);

// Returns the receiving end at `index`, from 0 to below wirelane_info.rx_ends. Each end is
// returned once. Close it with wirelane_rx_close().
WIRELANE_MUST_CHECK
int wirelane_port_rx(wirelane_port port,
                     size_t index,
                     wirelane_rx *rx,
                     wirelane_error *error);

// Returns the transmitting end at `index`, from 0 to below wirelane_info.tx_ends. Each end is
// returned once. Close it with wirelane_tx_close(). The ends of a port opened for forwarding
// segment long frames.
WIRELANE_MUST_CHECK
int wirelane_port_tx(wirelane_port port,
                     size_t index,
                     wirelane_tx *tx,
                     wirelane_error *error);

// Describes the port. `size` is sizeof(wirelane_info).
int wirelane_port_info(wirelane_port port, wirelane_info *info, size_t size, wirelane_error *error);

// The current masks.
int wirelane_port_mask(wirelane_port port, wirelane_mask *mask, wirelane_error *error);

// Replaces the masks while packets flow. Packets of queues that stay selected are neither lost nor
// duplicated.
WIRELANE_MUST_CHECK
int wirelane_port_set_mask(wirelane_port port,
                           const wirelane_mask *mask,
                           wirelane_error *error);

// Replaces the filter while packets flow. It is an expression of pcap-filter(7), or the output of
// `tcpdump -ddd`; NULL accepts all packets that the masks select. Packets already in the rings
// passed the old filter.
WIRELANE_MUST_CHECK
int wirelane_port_set_filter(wirelane_port port,
                             const char *filter,
                             wirelane_error *error);

// Like wirelane_port_set_filter(), with a compiled program.
WIRELANE_MUST_CHECK
int wirelane_port_set_program(wirelane_port port,
                              const wirelane_instruction *instructions,
                              size_t count,
                              wirelane_error *error);

// The counters of the receiving end at `index`, which may be closed. `size` is
// sizeof(wirelane_rx_stats).
int wirelane_port_rx_stats(wirelane_port port,
                           size_t index,
                           wirelane_rx_stats *stats,
                           size_t size,
                           wirelane_error *error);

// The counters of the transmitting end at `index`, which may be closed. `size` is
// sizeof(wirelane_tx_stats).
int wirelane_port_tx_stats(wirelane_port port,
                           size_t index,
                           wirelane_tx_stats *stats,
                           size_t size,
                           wirelane_error *error);

// The location of the port's frames. `size` is sizeof(wirelane_frames).
int wirelane_port_frames(wirelane_port port,
                         wirelane_frames *frames,
                         size_t size,
                         wirelane_error *error);

// Adds received packets to the end of `batch` while it has room. Returns their number; 0 if none
// is ready. Never blocks.
int wirelane_rx_receive(wirelane_rx rx, wirelane_batch batch);

// When to ask again after a call that received nothing, for programs with an event loop. An error,
// such as a removed interface, is returned once; then the end has ended.
WIRELANE_MUST_CHECK
int wirelane_rx_readiness(wirelane_rx rx,
                          wirelane_readiness *readiness,
                          wirelane_error *error);

// Waits until one of `ends` may have packets, `timeout` nanoseconds pass, or a signal arrives. A
// negative timeout waits without limit. Returns the sum of WIRELANE_WAKE_..., at once if all ends
// have ended.
//
// Call it after a round without packets. A failed end returns its error once; then it has ended.
WIRELANE_MUST_CHECK
int wirelane_wait(const wirelane_rx *ends,
                  size_t ends_count,
                  int64_t timeout,
                  wirelane_error *error);

// Like wirelane_wait(), and waits also for at most 64 `descriptors` of the program: until one is
// readable, has an error or was hung up. Bit i of `ready` (which may be NULL) is set if descriptor
// i is.
WIRELANE_MUST_CHECK
int wirelane_wait_any(const wirelane_rx *ends,
                      size_t ends_count,
                      const int *descriptors,
                      size_t descriptors_count,
                      int64_t timeout,
                      uint64_t *ready,
                      wirelane_error *error);

// Sets `watermark` to a time in nanoseconds since 1970. No older packet follows.
int wirelane_rx_watermark(wirelane_rx rx, uint64_t *watermark);

// Counts packets received here for which a forwarding program found no room in a TX queue.
int wirelane_rx_count_unforwarded(wirelane_rx rx, uint64_t packets);

// Closes the receiving end. Its packets in batches stay valid.
int wirelane_rx_close(wirelane_rx rx);

// Adds up to `packets` empty frames of the port's own memory to the end of `batch`. Fill them with
// wirelane_batch_fill(); the port transmits them without a copy. Returns their number.
int wirelane_tx_allocate(wirelane_tx tx, wirelane_batch batch, size_t packets);

// Takes as many packets from the front of `batch` as there is room for; the others stay. Returns
// their number. Never blocks. wirelane_tx_flush() sends them at the latest.
int wirelane_tx_transmit(wirelane_tx tx, wirelane_batch batch);

// Like wirelane_tx_transmit(), but flushes, and waits for room until there was none for `timeout`
// nanoseconds. Returns the number of packets that stay in the batch.
int wirelane_tx_transmit_all(wirelane_tx tx,
                             wirelane_batch batch,
                             uint64_t timeout,
                             wirelane_error *error);

// Transmits a copy of the `len` bytes at `data`. Returns 1, or 0 if there is no room now.
// wirelane_tx_flush() sends it at the latest.
int wirelane_tx_send(wirelane_tx tx, const uint8_t *data, size_t len);

// Adds transmitted packets to the end of `batch`, each with its transmit time, and returns their
// number. Only ports such as `xdp:eth0?tx_timestamps=on` keep these packets.
int wirelane_tx_sent(wirelane_tx tx, wirelane_batch batch);

// Hands the packets taken so far to the interface, and reclaims the memory of transmitted packets.
int wirelane_tx_flush(wirelane_tx tx, wirelane_error *error);

// The number of packets taken and not transmitted yet.
int wirelane_tx_pending(wirelane_tx tx);

// Waits for room, for at most `timeout` nanoseconds.
int wirelane_tx_wait(wirelane_tx tx, uint64_t timeout, wirelane_error *error);

// Flushes until all packets were transmitted, for at most `timeout` nanoseconds. Returns the
// number of remaining packets.
int wirelane_tx_drain(wirelane_tx tx, uint64_t timeout, wirelane_error *error);

// Closes the transmitting end. Sends its pending packets for up to a fifth of a second, and counts
// the rest as errors.
int wirelane_tx_close(wirelane_tx tx);

// Makes an empty batch for up to `capacity` packets. Free it with wirelane_batch_free().
WIRELANE_MUST_CHECK
int wirelane_batch_new(size_t capacity,
                       wirelane_batch *batch,
                       wirelane_error *error);

// Frees the batch, and returns its packets to the pools that own their memory.
int wirelane_batch_free(wirelane_batch batch);

// Sets `packets` to an array of pointers, one for each packet of the batch, and returns their
// number. The array belongs to the batch and is valid until the next function that adds or removes
// packets. With NULL, it only counts them.
int wirelane_batch_packets(wirelane_batch batch, const wirelane_packet *const **packets);

// The number of packets that still fit.
int wirelane_batch_room(wirelane_batch batch);

// Returns all packets to the pools that own their memory.
int wirelane_batch_clear(wirelane_batch batch);

// Releases the first `packets` packets; the others move to the front.
int wirelane_batch_release_first(wirelane_batch batch, size_t packets);

// Releases all but the first `packets` packets.
int wirelane_batch_truncate(wirelane_batch batch, size_t packets);

// Keeps packet i if `keep[i]` is not 0, in order, and releases the others. `keep` has an element
// for each packet. Returns the number of packets kept.
int wirelane_batch_retain(wirelane_batch batch, const uint8_t *keep);

// Moves as many packets as fit from the front of `from` to the end of `to`. Returns their number.
int wirelane_batch_append(wirelane_batch to, wirelane_batch from);

// Replaces the bytes of a packet with `len` bytes at `data`.
int wirelane_batch_fill(wirelane_batch batch, size_t index, const uint8_t *data, size_t len);

// Truncates a packet at its end, or extends it, to `len` bytes. Added bytes have no defined
// content.
int wirelane_batch_set_len(wirelane_batch batch, size_t index, size_t len);

// Adds `bytes` bytes before a packet, for a header.
int wirelane_batch_prepend(wirelane_batch batch, size_t index, size_t bytes);

// Removes `bytes` bytes from the front of a packet.
int wirelane_batch_strip(wirelane_batch batch, size_t index, size_t bytes);

// Sets the time of a packet, in nanoseconds since 1970, for packets that the program makes. A
// capture file stores it.
int wirelane_batch_set_timestamp(wirelane_batch batch, size_t index, uint64_t nanoseconds);

// Sets `nanoseconds` to the time at which the hardware received a packet, by the device's clock.
// Returns 1, or 0 if it is unknown (`xdp:eth0?rx_timestamps=on` enables it).
int wirelane_batch_hardware_timestamp(wirelane_batch batch, size_t index, uint64_t *nanoseconds);

// Sets `hash` to the flow hash that the interface computed. Returns 1, or 0 if it is unknown
// (`xdp:eth0?rx_hash=on` enables it).
int wirelane_batch_rx_hash(wirelane_batch batch, size_t index, uint32_t *hash);

// Returns 1 if offloads are pending, such as a partial checksum or segmentation: transmitting ends
// complete them. Otherwise 0.
int wirelane_batch_is_unfinished(wirelane_batch batch, size_t index);

// Sets a field of a packet, WIRELANE_FIELD_..., to the `len` bytes at `value`, in network order.
// Updates every checksum that covers it, also a partial one that a device will complete.
int wirelane_batch_rewrite(wirelane_batch batch,
                           size_t index,
                           uint32_t field,
                           const uint8_t *value,
                           size_t len,
                           wirelane_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIRELANE_H */
