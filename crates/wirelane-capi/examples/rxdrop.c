/* Receives as fast as it can and drops everything: one thread per queue. Prints the rate once per second.
 *
 *     cc rxdrop.c $(pkg-config --cflags --libs wirelane) -pthread -o rxdrop && ./rxdrop sim:2?count=100M
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <wirelane.h>

#define MOST_QUEUES 256

static atomic_uint ended;
static volatile sig_atomic_t interrupted;
static void interrupt(int number) { interrupted = number; }

static int check(int status, const wirelane_error *error) {
    if (status >= 0)
        return status;
    fprintf(stderr, "rxdrop: %s\n", error->text);
    exit(1);
}

/* The thread of one queue: receives until the end, which the main thread may order by wirelane_port_stop(). */
static void *drop_all(void *argument) {
    wirelane_rx rx = *(wirelane_rx *)argument;
    wirelane_error error;
    wirelane_batch batch;
    check(wirelane_batch_new(WIRELANE_BATCH_DEFAULT, &batch, &error), &error);
    int wake = 0;
    while (!(wake & WIRELANE_WAKE_ENDED)) {
        if (wirelane_rx_receive(rx, batch) > 0)
            wirelane_batch_clear(batch);
        else
            wake = check(wirelane_wait(&rx, 1, 100 * 1000 * 1000, &error), &error);
    }
    wirelane_batch_free(batch);
    wirelane_rx_close(rx);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

int main(int argc, char **argv) {
    wirelane_error error;
    wirelane_port port;
    check(wirelane_open(argc > 1 ? argv[1] : "sim:4?count=1000000", NULL, &port, &error), &error);
    wirelane_info info;
    check(wirelane_port_info(port, &info, sizeof info, &error), &error);
    unsigned count = info.rx_ends < MOST_QUEUES ? info.rx_ends : MOST_QUEUES;
    wirelane_rx ends[MOST_QUEUES];
    pthread_t threads[MOST_QUEUES];
    signal(SIGINT, interrupt);
    for (unsigned i = 0; i < count; i++) {
        check(wirelane_port_rx(port, i, &ends[i], &error), &error);
        if (pthread_create(&threads[i], NULL, drop_all, &ends[i]) != 0)
            return 1;
    }

    check(wirelane_port_start(port, &error), &error);
    uint64_t before = 0;
    for (unsigned ticks = 1; atomic_load(&ended) < count; ticks++) {
        struct timespec tick = {0, 10 * 1000 * 1000};
        nanosleep(&tick, NULL);
        if (interrupted)
            wirelane_port_stop(port);
        uint64_t packets = 0;
        for (unsigned i = 0; i < count; i++) {
            wirelane_rx_stats stats;
            check(wirelane_port_rx_stats(port, i, &stats, sizeof stats, &error), &error);
            packets += stats.packets;
        }
        int is_last = atomic_load(&ended) == count;
        if (ticks % 100 == 0 || is_last) {
            printf("%" PRIu64 " packets, %" PRIu64 " in all\n", packets - before, packets);
            before = packets;
        }
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return wirelane_close(port) < 0;
}
