/*
 * libwirelane: multi-queue packet I/O.
 *
 * Functions return WIRELANE_OK, a count, or a negative WIRELANE_ERROR_...; a wirelane_error says more, in a text. Every
 * output and every wirelane_error may be uninitialised before the call.
 *
 * Handles are numbers that are never used twice. A handle that was closed, was never opened (such as a zero-initialised
 * one), or is used by another thread at the same time is an error, in every function.
 *
 * Threads: functions with a wirelane_port may be called from any thread at any time. A wirelane_rx, wirelane_tx or
 * wirelane_batch belongs to one thread at a time, and may move to another. Ends of different queues share nothing.
 * After fork() only one of the two processes uses what was open.
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

// It worked.
#define WIRELANE_OK 0

// The request itself is wrong: a malformed spec, an unknown option, a queue that is not there.
#define WIRELANE_ERROR_USAGE -1

// The request was understood and could not be carried out.
#define WIRELANE_ERROR_FAILED -2

// The reader of what is written went away.
#define WIRELANE_ERROR_BROKEN_PIPE -3

// The handle was closed, or never was one of this kind.
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

// Packets that are tied to no queue.
#define WIRELANE_OTHER 2

// The queue of packets that are tied to none, and in a mask every queue.
#define WIRELANE_NO_QUEUE 65535

// The program only looks.
#define WIRELANE_TAKE_NOTHING 0

// The program takes the packets that the filter accepts away from the host.
#define WIRELANE_TAKE_MATCHING 1

// The program takes all packets, or those that the filter accepts.
#define WIRELANE_TAKE_ALL 2

// What a counter says that cannot be known.
#define WIRELANE_UNKNOWN UINT64_MAX

// The interface that this header describes. It goes up when programs have to be compiled anew;
// functions, and fields at the end of structures that have a size, are added without that.
#define WIRELANE_ABI_VERSION 1

// Ask again at once.
#define WIRELANE_READY_NOW 0

// Ask again when the descriptor is readable or the time has passed, or at once if the CPU is
// yours: a thread that sleeps may wake up too late for the next burst.
#define WIRELANE_READY_SOON 1

// Ask again when the descriptor is readable or the time has passed.
#define WIRELANE_READY_DESCRIPTOR 2

// Ask again after the time.
#define WIRELANE_READY_AFTER 3

// Everything has been received.
#define WIRELANE_READY_END 4

// Returned by waiting: a receiving end may have packets.
#define WIRELANE_WAKE_PACKETS 1

// Returned by waiting: the time has passed.
#define WIRELANE_WAKE_TIMEOUT 2

// Returned by waiting: a descriptor of the program is ready.
#define WIRELANE_WAKE_DESCRIPTOR 4

// Returned by waiting: all receiving ends have ended.
#define WIRELANE_WAKE_ENDED 8

// The usual number of packets in a batch.
#define WIRELANE_BATCH_DEFAULT 64

// No batch holds more packets.
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

// Which packets are selected: a plain value, set by wirelane_mask_all() or wirelane_mask_none()
// first.
//
// The queues are bits: queue q is bit q % 64 of word q / 64.
typedef struct {
    // 0 lets every packet pass, whatever the masks say.
    uint8_t enabled;
    // 1 selects packets that are tied to no queue.
    uint8_t other;
    // 1 selects every RX queue, later ones included.
    uint8_t all_rx;
    // 1 selects every TX queue, later ones included.
    uint8_t all_tx;
    // 0.
    uint32_t reserved;
    // Selected RX queues.
    uint64_t rx[64];
    // Selected TX queues.
    uint64_t tx[64];
} wirelane_mask;

// How to open a port. wirelane_options_init() sets the defaults; then the program changes what it
// wants.
//
// The structure belongs to the program, and so does what it points to: both are read while the
// port is opened. What is 0 or 1 is "yes" for every value but 0.
typedef struct {
    // Bytes of the structure, as the program knows it.
    size_t size;
    // Which packets to receive: an expression of pcap-filter(7), or what `tcpdump -ddd` prints.
    // NULL: all.
    const char *filter;
    // Which queues and classes to select. NULL: all.
    const wirelane_mask *mask;
    // Bytes of receive memory per queue. 0: the backend's choice.
    uint64_t ring_bytes;
    // How many nanoseconds a received packet may wait for others, about. 0: the backend's choice.
    uint64_t latency;
    // Longest part of a packet to keep, in bytes.
    uint32_t snaplen;
    // Which packets to take away from the host (only `xdp:` does): WIRELANE_TAKE_...
    uint32_t take;
    // 1: open for receiving. The default.
    uint8_t receive;
    // 1: open for transmitting.
    uint8_t transmit;
    // 1: packets that the host itself sends can be selected. The default.
    uint8_t outgoing;
    // 1: promiscuous mode while the port is open.
    uint8_t promiscuous;
    // 1: when the interface is removed, wait for another one of its name (`packet:` only).
    uint8_t wait;
    // 1: with `take`, also take what keeps the host reachable: ARP, neighbour discovery, SSH, DNS
    // and DHCP.
    uint8_t take_management;
    // 1: the program forwards. Packets arrive as they were on the wire or marked to be cut, which
    // the transmitting ends of such a port do. wirelane_options_forwarder() sets it, and what goes
    // with it.
    uint8_t forward;
    // 0.
    uint8_t reserved;
} wirelane_options;

// What went wrong. The caller has it, mostly on its stack; nothing has to be freed.
//
// Functions that take one set it in any case; with NULL only the status is told.
typedef struct {
    // WIRELANE_OK or one of WIRELANE_ERROR_..., the same as the function returned.
    int32_t status;
    // The errno of the system call behind it, or 0.
    int32_t os_error;
    // One line: the object, the cause and, after a semicolon, what to do about it. Empty without
    // an error.
    char text[1016];
} wirelane_error;

// A port: an interface, a file or a simulation, opened by wirelane_open(). Any thread may use it,
// also several at a time. Zero-initialised it is none.
typedef struct {
    // Its number; never that of another one.
    uint64_t id;
} wirelane_port;

// A receiving end. One thread at a time may use it.
typedef struct {
    // Its number; never that of another one.
    uint64_t id;
} wirelane_rx;

// A transmitting end. One thread at a time may use it.
typedef struct {
    // Its number; never that of another one.
    uint64_t id;
} wirelane_tx;

// What an open port is. The texts belong to the port and are there until it is closed.
typedef struct {
    // The spec, as the program wrote it.
    const char *spec;
    // Its kind: `sim`, `file`, `packet`, `xdp` or `tap`.
    const char *backend;
    // How it works underneath, such as `tpacket-v3` or `zerocopy`.
    const char *mode;
    // Name of the network interface; NULL without one.
    const char *interface;
    // Notes for the user, one a line; may be empty.
    const char *notes;
    // Link speed in bits per second; WIRELANE_UNKNOWN without one.
    uint64_t speed;
    // How many nanoseconds later than its time a packet can be delivered, at most.
    uint64_t lateness;
    // How many receiving ends it has.
    uint32_t rx_ends;
    // How many transmitting ends it has.
    uint32_t tx_ends;
    // Most bytes kept of a packet.
    uint32_t snaplen;
    // Link type as in capture files; 1 is Ethernet.
    uint16_t link_type;
    // 1: the port waits for its consumer, so that a slow one loses nothing.
    uint8_t lossless;
    // 1: packets may come until it is stopped.
    uint8_t endless;
    // MAC address of the interface.
    uint8_t mac[6];
    // 1: there is one.
    uint8_t has_mac;
    // 0.
    uint8_t reserved;
} wirelane_info;

// One instruction of a classic BPF program, as `struct bpf_insn` and `struct sock_filter`.
typedef struct {
    // What it does.
    uint16_t code;
    // How far to jump if true.
    uint8_t jt;
    // How far to jump if false.
    uint8_t jf;
    // Its operand.
    uint32_t k;
} wirelane_instruction;

// What became of the packets of a receiving end. Each number may be WIRELANE_UNKNOWN.
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
    // Packets that found a TX queue full: wirelane_rx_count_unforwarded().
    uint64_t dropped_tx_full;
    // Of the packets received, those merged into the frame of another one.
    uint64_t merged;
    // The queue, or WIRELANE_NO_QUEUE.
    uint32_t queue;
    // WIRELANE_RX, WIRELANE_TX or WIRELANE_OTHER.
    uint32_t queue_class;
} wirelane_rx_stats;

// What became of the packets of a transmitting end.
typedef struct {
    // Frames handed to the interface.
    uint64_t packets;
    // Their bytes.
    uint64_t bytes;
    // Frames that could not be sent.
    uint64_t errors;
    // Of these, those of a length that the interface does not take.
    uint64_t wrong_length;
    // Of these, those that the kernel refused to send.
    uint64_t refused;
    // Frames that were copied, because they lie in memory that the port cannot send from.
    uint64_t copied;
    // The queue.
    uint32_t queue;
    // 0.
    uint32_t reserved;
} wirelane_tx_stats;

// Where the frames of a port are. What is in none of these places, the program holds.
typedef struct {
    // All frames.
    uint64_t pool;
    // Free.
    uint64_t free;
    // Waiting for the interface to fill them.
    uint64_t fill;
    // Filled and not yet received.
    uint64_t rx;
    // Waiting to be transmitted, or being transmitted.
    uint64_t tx;
    // Transmitted and not yet reclaimed.
    uint64_t completion;
    // In the hands of the program.
    uint64_t held;
} wirelane_frames;

// Packets that travel together. One thread at a time may use it.
typedef struct {
    // Its number; never that of another one.
    uint64_t id;
} wirelane_batch;

// When to ask a receiving end again.
typedef struct {
    // Nanoseconds to wait at most.
    uint64_t nanoseconds;
    // The descriptor to poll for reading; it belongs to the port. -1 without one.
    int32_t descriptor;
    // WIRELANE_READY_...
    uint32_t kind;
} wirelane_readiness;

// One packet of a batch: the library's own record, to be read. It changes with the packet, and is
// there until the packet leaves the batch.
typedef struct {
    // Of the library.
    const void *owner;
    // Its bytes, from the Ethernet header on, without the frame check sequence. They may be
    // changed.
    uint8_t *data;
    // When the port saw it: nanoseconds since 1970, 0 if the port keeps no time.
    uint64_t timestamp;
    // Bytes at `data`.
    uint32_t len;
    // Bytes on the wire; more than `len` if the snap length cut it.
    uint32_t original_len;
    // Of the library.
    uint32_t reserved[3];
    // Its queue, unless `queue_class` is WIRELANE_OTHER.
    uint16_t queue;
    // WIRELANE_RX, WIRELANE_TX or WIRELANE_OTHER.
    uint8_t queue_class;
    // Of the library.
    uint8_t marks;
} wirelane_packet;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The interface of the library that is loaded: a program may compare it with WIRELANE_ABI_VERSION.
uint32_t wirelane_abi_version(void);

// The version of the library that is loaded, such as "0.1.0".
const char *wirelane_version(void);

// What a status means, in a few words. The text is there for ever.
const char *wirelane_status_text(int status);

// Sets the options to the defaults: to receive copies of everything. `size` is
// sizeof(wirelane_options).
int wirelane_options_init(wirelane_options *options, size_t size);

// Sets the options to those of a program that forwards: promiscuous, open for both directions,
// packets as they were on the wire within about a millisecond, none that the host itself sends.
int wirelane_options_forwarder(wirelane_options *options, size_t size);

// Selects everything, in all three classes.
int wirelane_mask_all(wirelane_mask *mask);

// Selects nothing.
int wirelane_mask_none(wirelane_mask *mask);

// Replaces the queues of WIRELANE_RX or WIRELANE_TX by those of a text: "all", "none" or a list
// such as "0,2-3".
WIRELANE_MUST_CHECK
int wirelane_mask_parse(wirelane_mask *mask,
                        uint32_t queue_class,
                        const char *queues,
                        wirelane_error *error);

// Selects one queue of WIRELANE_RX or WIRELANE_TX, or all with WIRELANE_NO_QUEUE; or, with
// WIRELANE_OTHER, packets that are tied to no queue.
int wirelane_mask_add(wirelane_mask *mask, uint32_t queue_class, uint32_t queue);

// 1 if the mask selects packets of that class and queue, otherwise 0.
int wirelane_mask_selects(const wirelane_mask *mask, uint32_t queue_class, uint32_t queue);

// Opens the port that `spec` names, such as "packet:eth0@0-3" or "sim:4?count=1000". `options` may
// be NULL for the defaults. No packet is let in before wirelane_port_start().
//
// The program closes it by wirelane_close().
WIRELANE_MUST_CHECK
int wirelane_open(const char *spec,
                  const wirelane_options *options,
                  wirelane_port *port,
                  wirelane_error *error);

// Stops the port and closes it. Ends that were handed out stay open: the receiving ones deliver
// what is in their rings and end; the program closes each.
int wirelane_close(wirelane_port port);

// Lets packets in. Call it when every thread is ready.
WIRELANE_MUST_CHECK int wirelane_port_start(wirelane_port port, wirelane_error *error);

// Lets no more packets in. What is in the rings can still be received, then the receiving ends
// have ended. Not for signal handlers: it takes locks.
int wirelane_port_stop(wirelane_port port);

// Hands out the receiving end at `index`, counted from 0 to below wirelane_info.rx_ends. Each is
// handed out once; the program closes it by wirelane_rx_close().
WIRELANE_MUST_CHECK
int wirelane_port_rx(wirelane_port port,
                     size_t index,
                     wirelane_rx *rx,
                     wirelane_error *error);

// Hands out the transmitting end at `index`, counted from 0 to below wirelane_info.tx_ends. Each
// is handed out once; the program closes it by wirelane_tx_close(). Those of a port that was
// opened to forward cut long frames.
WIRELANE_MUST_CHECK
int wirelane_port_tx(wirelane_port port,
                     size_t index,
                     wirelane_tx *tx,
                     wirelane_error *error);

// What the port is. `size` is sizeof(wirelane_info).
int wirelane_port_info(wirelane_port port, wirelane_info *info, size_t size, wirelane_error *error);

// The masks in force.
int wirelane_port_mask(wirelane_port port, wirelane_mask *mask, wirelane_error *error);

// Replaces the masks, also while packets come. Packets of queues that stay selected are neither
// lost nor duplicated.
WIRELANE_MUST_CHECK
int wirelane_port_set_mask(wirelane_port port,
                           const wirelane_mask *mask,
                           wirelane_error *error);

// Replaces the filter, also while packets come: an expression of pcap-filter(7), or what
// `tcpdump -ddd` prints; NULL takes all packets that the masks select. Packets that are in the
// rings have met the old one.
WIRELANE_MUST_CHECK
int wirelane_port_set_filter(wirelane_port port,
                             const char *filter,
                             wirelane_error *error);

// As wirelane_port_set_filter(), with a compiled program.
WIRELANE_MUST_CHECK
int wirelane_port_set_program(wirelane_port port,
                              const wirelane_instruction *instructions,
                              size_t count,
                              wirelane_error *error);

// What became of the packets of the receiving end at `index`, also after it was closed. `size` is
// sizeof(wirelane_rx_stats).
int wirelane_port_rx_stats(wirelane_port port,
                           size_t index,
                           wirelane_rx_stats *stats,
                           size_t size,
                           wirelane_error *error);

// What became of the packets of the transmitting end at `index`, also after it was closed. `size`
// is sizeof(wirelane_tx_stats).
int wirelane_port_tx_stats(wirelane_port port,
                           size_t index,
                           wirelane_tx_stats *stats,
                           size_t size,
                           wirelane_error *error);

// Where the frames of the port are. `size` is sizeof(wirelane_frames).
int wirelane_port_frames(wirelane_port port,
                         wirelane_frames *frames,
                         size_t size,
                         wirelane_error *error);

// Adds received packets to the end of `batch` while it has room. Returns how many; 0 if none is
// ready. Never blocks.
int wirelane_rx_receive(wirelane_rx rx, wirelane_batch batch);

// When to ask again after a call that received nothing, for programs with an event loop of their
// own. An error, such as that of an interface that was removed, is told once; then the end has
// ended.
WIRELANE_MUST_CHECK
int wirelane_rx_readiness(wirelane_rx rx,
                          wirelane_readiness *readiness,
                          wirelane_error *error);

// Waits until one of `count` receiving ends may have packets or `timeout` nanoseconds have passed;
// a negative timeout is none. Returns the sum of WIRELANE_WAKE_..., at once if all have ended. A
// signal ends it, too.
//
// Call it after a round in which none had packets. An end that fails is an error once; then it has
// ended.
WIRELANE_MUST_CHECK
int wirelane_wait(const wirelane_rx *ends,
                  size_t ends_count,
                  int64_t timeout,
                  wirelane_error *error);

// As wirelane_wait(), and until one of at most 64 `descriptors` of the program is readable, has an
// error or was hung up: bit i of `ready` (which may be NULL) says that descriptor i is.
WIRELANE_MUST_CHECK
int wirelane_wait_any(const wirelane_rx *ends,
                      size_t ends_count,
                      const int *descriptors,
                      size_t descriptors_count,
                      int64_t timeout,
                      uint64_t *ready,
                      wirelane_error *error);

// No packet older than this (nanoseconds since 1970) will come any more.
int wirelane_rx_watermark(wirelane_rx rx, uint64_t *watermark);

// Counts packets that were received here and found no room in a TX queue, for a program that
// forwards.
int wirelane_rx_count_unforwarded(wirelane_rx rx, uint64_t packets);

// Closes the receiving end. Its packets in batches stay valid.
int wirelane_rx_close(wirelane_rx rx);

// Adds up to `packets` empty frames of the port's own memory to the end of `batch`: they are
// filled by wirelane_batch_fill() and transmitted without a copy. Returns how many.
int wirelane_tx_allocate(wirelane_tx tx, wirelane_batch batch, size_t packets);

// Takes packets from the front of `batch`, as many as there is room for; the others stay. Returns
// how many. Never blocks. They leave at the latest with wirelane_tx_flush().
int wirelane_tx_transmit(wirelane_tx tx, wirelane_batch batch);

// As wirelane_tx_transmit(), but flushes and waits for room, until `timeout` nanoseconds pass in
// which there was none. Returns how many packets stay in the batch.
int wirelane_tx_transmit_all(wirelane_tx tx,
                             wirelane_batch batch,
                             uint64_t timeout,
                             wirelane_error *error);

// Transmits a copy of the `len` bytes at `data`. Returns 1, or 0 if there is no room now. It
// leaves at the latest with wirelane_tx_flush().
int wirelane_tx_send(wirelane_tx tx, const uint8_t *data, size_t len);

// Adds packets that have left to the end of `batch`, each with the time at which it left; returns
// how many. Only ports such as `xdp:eth0?tx_timestamps=on` keep them.
int wirelane_tx_sent(wirelane_tx tx, wirelane_batch batch);

// Makes sure that what was taken is on its way, and reclaims the memory of what has left.
int wirelane_tx_flush(wirelane_tx tx, wirelane_error *error);

// How many packets were taken and have not left.
int wirelane_tx_pending(wirelane_tx tx);

// Waits until there is room again, at most `timeout` nanoseconds.
int wirelane_tx_wait(wirelane_tx tx, uint64_t timeout, wirelane_error *error);

// Flushes until everything has left, at most `timeout` nanoseconds. Returns how many packets have
// not.
int wirelane_tx_drain(wirelane_tx tx, uint64_t timeout, wirelane_error *error);

// Closes the transmitting end: sends what it has taken for a fifth of a second, and counts the
// rest as errors.
int wirelane_tx_close(wirelane_tx tx);

// Makes an empty batch for up to `capacity` packets. The program frees it by
// wirelane_batch_free().
WIRELANE_MUST_CHECK
int wirelane_batch_new(size_t capacity,
                       wirelane_batch *batch,
                       wirelane_error *error);

// Frees the batch. Its packets go back to where their memory came from.
int wirelane_batch_free(wirelane_batch batch);

// Sets `packets` to an array of pointers, one for each packet of the batch, and returns how many
// these are. The array belongs to the batch and is valid until the next function that adds packets
// or takes some away. NULL only counts them.
int wirelane_batch_packets(wirelane_batch batch, const wirelane_packet *const **packets);

// How many more packets fit.
int wirelane_batch_room(wirelane_batch batch);

// Gives every packet back to where its memory came from.
int wirelane_batch_clear(wirelane_batch batch);

// Gives the first `packets` packets back; those behind them move up.
int wirelane_batch_release_first(wirelane_batch batch, size_t packets);

// Gives all but the first `packets` packets back.
int wirelane_batch_truncate(wirelane_batch batch, size_t packets);

// Keeps packet i if `keep[i]` is not 0, in order, and gives the others back. `keep` has an element
// for each packet. Returns how many stay.
int wirelane_batch_retain(wirelane_batch batch, const uint8_t *keep);

// Moves packets from the front of `from` to the end of `to`, as many as fit. Returns how many.
int wirelane_batch_append(wirelane_batch to, wirelane_batch from);

// Replaces the bytes of a packet by `len` bytes at `data`.
int wirelane_batch_fill(wirelane_batch batch, size_t index, const uint8_t *data, size_t len);

// Makes a packet `len` bytes long, cutting or extending it at its end. Bytes gained have no
// defined content.
int wirelane_batch_set_len(wirelane_batch batch, size_t index, size_t len);

// Opens `bytes` bytes before a packet, for a header.
int wirelane_batch_prepend(wirelane_batch batch, size_t index, size_t bytes);

// Takes `bytes` bytes off the front of a packet.
int wirelane_batch_strip(wirelane_batch batch, size_t index, size_t bytes);

// Sets the time of a packet that the program has made, in nanoseconds since 1970: a file keeps it.
int wirelane_batch_set_timestamp(wirelane_batch batch, size_t index, uint64_t nanoseconds);

// Sets `nanoseconds` to when the hardware received a packet, by the clock of the device. Returns
// 1, or 0 if it is not known (`xdp:eth0?rx_timestamps=on` asks for it).
int wirelane_batch_hardware_timestamp(wirelane_batch batch, size_t index, uint64_t *nanoseconds);

// Sets `hash` to the hash by which the interface told flows apart. Returns 1, or 0 if it is not
// known (`xdp:eth0?rx_hash=on` asks for it).
int wirelane_batch_rx_hash(wirelane_batch batch, size_t index, uint32_t *hash);

// 1 if something is left to do before a packet is as on the wire, such as completing a checksum or
// cutting it into packets: transmitting ends do it. Otherwise 0.
int wirelane_batch_is_unfinished(wirelane_batch batch, size_t index);

// Changes a field of a packet, WIRELANE_FIELD_..., to the `len` bytes at `value`, in network
// order. Every checksum that covers it follows, also one that a device will complete.
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
