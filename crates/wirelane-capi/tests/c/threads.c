/* Concurrent calls of threads, and calls that are safely refused. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "expect.h"

static wirelane_port port;
static wirelane_rx rx;
static atomic_int done;
static atomic_ullong received, busy;

/* Any thread may query and change the port. */
static void *manage(void *argument) {
    wirelane_error error;
    (void)argument;
    for (int round = 0; !done; round++) {
        wirelane_mask mask;
        wirelane_rx_stats stats;
        wirelane_frames frames;
        WORKS(wirelane_port_mask(port, &mask, &error));
        WORKS(wirelane_port_set_mask(port, &mask, &error));
        WORKS(wirelane_port_set_filter(port, round % 2 ? "1,6 0 0 65535" : NULL, &error));
        WORKS(wirelane_port_rx_stats(port, 0, &stats, sizeof stats, &error));
        WORKS(wirelane_port_frames(port, &frames, sizeof frames, &error));
    }
    return NULL;
}

/* Two threads with one end: each call is served or refused. */
static void *receive(void *argument) {
    wirelane_error error;
    wirelane_batch batch;
    (void)argument;
    WORKS(wirelane_batch_new(64, &batch, &error));
    while (!done) {
        int n = wirelane_rx_receive(rx, batch);
        EXPECT(n >= 0 || n == WIRELANE_ERROR_BUSY);
        if (n < 0)
            busy++;
        else
            received += (unsigned)n;
        wirelane_batch_clear(batch);
    }
    EXPECT(wirelane_batch_free(batch) == WIRELANE_OK);
    return NULL;
}

/* An end moves to another thread, where it waits until the port is stopped. */
static void *wait_for_end(void *argument) {
    wirelane_error error;
    wirelane_batch batch;
    (void)argument;
    WORKS(wirelane_batch_new(64, &batch, &error));
    int wake = 0;
    while (!(wake & WIRELANE_WAKE_ENDED)) {
        if (wirelane_rx_receive(rx, batch) > 0)
            wirelane_batch_clear(batch);
        else
            wake = wirelane_wait(&rx, 1, -1, &error);
    }
    EXPECT(wirelane_batch_free(batch) == WIRELANE_OK);
    EXPECT(wirelane_rx_close(rx) == WIRELANE_OK);
    return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *)) {
    EXPECT(pthread_create(thread, NULL, body, NULL) == 0);
}

static void together(void) {
    wirelane_error error;
    pthread_t threads[4];
    WORKS(wirelane_open("sim:1", NULL, &port, &error));
    WORKS(wirelane_port_rx(port, 0, &rx, &error));
    WORKS(wirelane_port_start(port, &error));
    start(&threads[0], manage);
    start(&threads[1], manage);
    start(&threads[2], receive);
    start(&threads[3], receive);
    while (received < 100000)
        usleep(1000);
    done = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    start(&threads[0], wait_for_end);
    EXPECT(wirelane_port_stop(port) == WIRELANE_OK);
    pthread_join(threads[0], NULL);
    wirelane_rx_stats stats;
    WORKS(wirelane_port_rx_stats(port, 0, &stats, sizeof stats, &error));
    EXPECT(stats.packets >= received);
    EXPECT(wirelane_close(port) == WIRELANE_OK);
}

/* Waiting together with descriptors of the program, with and without a timeout. */
static void waiting(void) {
    wirelane_error error;
    uint64_t ready = 9;
    int ends[2];
    EXPECT(pipe(ends) == 0);
    WORKS(wirelane_open("sim:1?rate=1", NULL, &port, &error));
    WORKS(wirelane_port_rx(port, 0, &rx, &error));
    int wake = wirelane_wait_any(NULL, 0, ends, 1, 1000, &ready, &error);
    EXPECT((wake & WIRELANE_WAKE_TIMEOUT) && !(wake & WIRELANE_WAKE_DESCRIPTOR) && ready == 0);
    EXPECT(write(ends[1], "x", 1) == 1);
    wake = wirelane_wait_any(&rx, 1, ends, 1, -1, &ready, &error);
    EXPECT((wake & WIRELANE_WAKE_DESCRIPTOR) && !(wake & WIRELANE_WAKE_ENDED) && ready == 1);
    wake = wirelane_wait_any(&rx, 1, ends, 1, -1, NULL, &error);
    EXPECT(wake & WIRELANE_WAKE_DESCRIPTOR);
    int many[65] = {0};
    FAILS(WIRELANE_ERROR_USAGE, wirelane_wait_any(&rx, 1, many, 65, 0, &ready, &error));
    EXPECT(wirelane_rx_close(rx) == WIRELANE_OK && wirelane_close(port) == WIRELANE_OK);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    together();
    waiting();
    return 0;
}
