/* Forwards between two ports, both ways, one thread for each TX queue.
 *
 *     cc forward.c $(pkg-config --cflags --libs wirelane) -pthread -o forward && sudo ./forward eth0 eth1
 *
 * Forwards RX queue i to TX queue i (modulo their number) until both ports end, or until ^C. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <wirelane.h>

#define MOST_QUEUES 256
#define SECOND 1000000000

struct lane { /* the work of one thread */
    wirelane_rx rx[MOST_QUEUES];
    wirelane_tx tx;
    unsigned count;
    uint64_t patience; /* nanoseconds to wait for room, if the source can wait */
    unsigned long forwarded;
    pthread_t thread;
};

static wirelane_port ports[2];
static volatile sig_atomic_t interrupted;
static void interrupt(int number) { interrupted = number; }

static int check(int status, const wirelane_error *error) {
    if (status >= 0)
        return status;
    fprintf(stderr, "forward: %s\n", error->text);
    exit(1);
}

static void *forward(void *argument) {
    struct lane *lane = argument;
    wirelane_error error;
    wirelane_batch batch;
    check(wirelane_batch_new(WIRELANE_BATCH_DEFAULT, &batch, &error), &error);
    for (int wake = 0; !(wake & WIRELANE_WAKE_ENDED);) {
        for (int p = 0; interrupted && p < 2; p++)
            wirelane_port_stop(ports[p]); /* what is in the rings still comes, then the end */
        unsigned long before = lane->forwarded;
        for (unsigned i = 0; i < lane->count; i++) {
            int received = wirelane_rx_receive(lane->rx[i], batch);
            int left = check(wirelane_tx_transmit_all(lane->tx, batch, lane->patience, &error), &error);
            wirelane_rx_count_unforwarded(lane->rx[i], (uint64_t)left);
            wirelane_batch_clear(batch);
            lane->forwarded += (unsigned long)(received - left);
        }
        if (lane->forwarded == before)
            wake = check(wirelane_wait(lane->rx, lane->count, SECOND / 10, &error), &error);
    }
    check(wirelane_tx_drain(lane->tx, SECOND, &error), &error);
    wirelane_tx_close(lane->tx);
    for (unsigned i = 0; i < lane->count; i++)
        wirelane_rx_close(lane->rx[i]);
    wirelane_batch_free(batch);
    return NULL;
}

int main(int argc, char **argv) {
    wirelane_error error;
    wirelane_info infos[2];
    wirelane_options options;
    wirelane_options_forwarder(&options, sizeof options);
    for (int p = 0; p < 2; p++) {
        check(wirelane_open(argc > p + 1 ? argv[p + 1] : "sim:2", &options, &ports[p], &error), &error);
        check(wirelane_port_info(ports[p], &infos[p], sizeof infos[p], &error), &error);
    }

    static struct lane lanes[MOST_QUEUES];
    unsigned used = 0;
    for (int p = 0; p < 2; p++) {
        unsigned rx = infos[p].rx_ends, tx = infos[!p].tx_ends;
        if (tx == 0 || used + tx > MOST_QUEUES || rx > MOST_QUEUES)
            return fprintf(stderr, "forward: %s: too many queues, or none to send to\n", infos[p].spec);
        for (unsigned i = 0; i < tx; i++)
            check(wirelane_port_tx(ports[!p], i, &lanes[used + i].tx, &error), &error);
        for (unsigned i = 0; i < rx; i++) {
            struct lane *lane = &lanes[used + i % tx];
            lane->patience = infos[p].lossless ? SECOND : 0;
            check(wirelane_port_rx(ports[p], i, &lane->rx[lane->count++], &error), &error);
        }
        used += tx;
    }
    signal(SIGINT, interrupt);
    for (unsigned i = 0; i < used; i++)
        if (pthread_create(&lanes[i].thread, NULL, forward, &lanes[i]) != 0)
            return 1;
    for (int p = 0; p < 2; p++)
        check(wirelane_port_start(ports[p], &error), &error);
    unsigned long forwarded = 0;
    for (unsigned i = 0; i < used; forwarded += lanes[i++].forwarded)
        pthread_join(lanes[i].thread, NULL);
    printf("%lu packets\n", forwarded);
    return wirelane_close(ports[0]) + wirelane_close(ports[1]);
}
