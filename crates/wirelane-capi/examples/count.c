/* Counts the packets of every queue on one thread, and prints the longest one.
 *
 *     cc count.c $(pkg-config --cflags --libs wirelane) -o count && ./count sim:4?count=1000000
 *
 * It ends when the port does (a simulated port with count=, a file), or at ^C. The second argument is a filter.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <wirelane.h>

#define MOST_QUEUES 256

static volatile sig_atomic_t interrupted;
static void interrupt(int number) { interrupted = number; }

/* Ends the program if a call failed. */
static int check(int status, const wirelane_error *error) {
    if (status >= 0)
        return status;
    fprintf(stderr, "count: %s\n", error->text);
    exit(1);
}

int main(int argc, char **argv) {
    wirelane_error error;
    wirelane_options options;
    wirelane_options_init(&options, sizeof options);
    options.filter = argc > 2 ? argv[2] : NULL;

    wirelane_port port;
    check(wirelane_open(argc > 1 ? argv[1] : "sim:4?count=1000000", &options, &port, &error), &error);
    wirelane_info info;
    check(wirelane_port_info(port, &info, sizeof info, &error), &error);
    unsigned count = info.rx_ends < MOST_QUEUES ? info.rx_ends : MOST_QUEUES;
    wirelane_rx ends[MOST_QUEUES];
    for (unsigned i = 0; i < count; i++)
        check(wirelane_port_rx(port, i, &ends[i], &error), &error);
    wirelane_batch batch;
    check(wirelane_batch_new(WIRELANE_BATCH_DEFAULT, &batch, &error), &error);

    signal(SIGINT, interrupt);
    check(wirelane_port_start(port, &error), &error);
    fprintf(stderr, "counting on %s (%s)\n", info.spec, info.mode);
    uint32_t longest = 0;
    int wake = 0;
    while (!(wake & WIRELANE_WAKE_ENDED)) {
        if (interrupted)
            wirelane_port_stop(port); /* what is in the rings still comes, then the end */
        int received = 0;
        for (unsigned i = 0; i < count; i++) {
            received += wirelane_rx_receive(ends[i], batch);
            const wirelane_packet *const *packets;
            int present = wirelane_batch_packets(batch, &packets);
            for (int k = 0; k < present; k++)
                longest = packets[k]->original_len > longest ? packets[k]->original_len : longest;
            wirelane_batch_clear(batch); /* the memory goes back to the queue */
        }
        if (received == 0)
            wake = check(wirelane_wait(ends, count, 100 * 1000 * 1000, &error), &error);
    }

    for (unsigned i = 0; i < count; i++) {
        wirelane_rx_stats stats;
        check(wirelane_port_rx_stats(port, i, &stats, sizeof stats, &error), &error);
        const char *names[] = {"rx", "tx", "other"};
        printf("%s %" PRIu32 ": %" PRIu64 " packets, %" PRIu64 " bytes\n", names[stats.queue_class],
               stats.queue, stats.packets, stats.bytes);
        wirelane_rx_close(ends[i]);
    }
    printf("longest packet: %" PRIu32 " bytes\n", longest);
    wirelane_batch_free(batch);
    wirelane_close(port);
    return 0;
}
