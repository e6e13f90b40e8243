/* Concurrent calls of several threads. */
#define GROUP "threads"
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4

static void together(void *(*run)(void *))
{
	pthread_t threads[THREADS];
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void *compile_some(void *number)
{
	(void)number;
	const char *expressions[] = {"udp dst port 4747", "vlan 5 and ip", "tcp port http", "host 192.0.2.1"};
	pcap_t *p = live();
	for (int i = 0; i < 20; i++) {
		struct bpf_program program = compiled(p, expressions[i % 4]);
		must(program.bf_len > 0);
		must(pcap_setfilter(p, &program) == 0);
		pcap_freecode(&program);
	}
	pcap_close(p);
	return NULL;
}

TEST(expressions_are_compiled_by_several_threads, "pcap_compile")
{
	together(compile_some);
}

static void *own_handle(void *number)
{
	struct seen seen = {0};
	pcap_t *p = live();
	/* Each handle sees the packets of all threads. */
	send_from(peer, 1000 * (uint32_t)(intptr_t)number, 100);
	must(pcap_loop(p, 100, see, (u_char *)&seen) == 0);
	struct pcap_stat stats;
	must(pcap_stats(p, &stats) == 0);
	must(stats.ps_recv >= 100);
	must(seen.count == 100);
	uint8_t frame[FRAME];
	build(frame, sizeof(frame), 1);
	must(pcap_sendpacket(p, frame, sizeof(frame)) == 0);
	pcap_close(p);
	return NULL;
}

TEST(each_thread_has_its_handle, "pcap_create pcap_activate pcap_loop pcap_stats pcap_close")
{
	together(own_handle);
}

static void *list_devices(void *number)
{
	(void)number;
	for (int i = 0; i < 20; i++) {
		char errors[PCAP_ERRBUF_SIZE];
		pcap_if_t *list = NULL;
		bpf_u_int32 net, mask;
		must(pcap_findalldevs(&list, errors) == 0);
		must(list != NULL);
		pcap_freealldevs(list);
		must(pcap_lookupnet(device, &net, &mask, errors) == 0);
	}
	return NULL;
}

TEST(devices_are_listed_by_several_threads, "pcap_findalldevs pcap_lookupnet")
{
	together(list_devices);
}

static pcap_t *shared;
static atomic_bool done;

static void *break_again_and_again(void *number)
{
	(void)number;
	while (!atomic_load(&done)) {
		pcap_breakloop(shared);
		usleep(200);
	}
	return NULL;
}

TEST(many_threads_break_one_loop, "pcap_breakloop pcap_loop")
{
	pthread_t threads[THREADS];
	struct seen seen = {0};
	atomic_store(&done, false);
	shared = live();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, break_again_and_again, NULL);
	int breaks = 0;
	for (int i = 0; i < 200; i++) {
		if (i % 20 == 0)
			send_from(peer, i, 5);
		int status = pcap_loop(shared, 3, see, (u_char *)&seen);
		must(status == PCAP_ERROR_BREAK || status == 0);
		breaks += status == PCAP_ERROR_BREAK;
	}
	must(breaks > 0);
	atomic_store(&done, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pcap_close(shared);
}

static void *read_shared(void *number)
{
	(void)number;
	struct seen seen = {0};
	must(pcap_loop(shared, 50, see, (u_char *)&seen) == 0);
	must(seen.count == 50);
	return NULL;
}

TEST(a_handle_is_handed_over_to_another_thread, "pcap_loop pcap_close")
{
	shared = live();
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		send_from(peer, 0, 50);
		pthread_create(&thread, NULL, read_shared, NULL);
		pthread_join(thread, NULL);
	}
	pcap_close(shared);
}

static void *open_and_close(void *number)
{
	char errors[PCAP_ERRBUF_SIZE];
	(void)number;
	for (int i = 0; i < 10; i++) {
		pcap_t *p = pcap_open_live(device, 2048, i % 2, 10, errors);
		must(p != NULL);
		pcap_breakloop(p);
		must(pcap_loop(p, 1, see, NULL) == PCAP_ERROR_BREAK);
		pcap_close(p);
	}
	return NULL;
}

TEST(handles_are_opened_and_closed_by_several_threads, "pcap_open_live pcap_close")
{
	together(open_and_close);
}

static void *dump_own(void *number)
{
	char errors[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr header = {.caplen = FRAME, .len = FRAME};
	uint8_t frame[FRAME];
	/* A separate path, because path_of() is for one thread. */
	char path[4200];
	snprintf(path, sizeof(path), "%s/thread-%d.pcap", directory, (int)(intptr_t)number);
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 2048);
	pcap_dumper_t *dumper = pcap_dump_open(p, path);
	must(dumper != NULL);
	for (int i = 0; i < 50; i++) {
		build(frame, sizeof(frame), i);
		pcap_dump((u_char *)dumper, &header, frame);
	}
	pcap_dump_close(dumper);
	pcap_close(p);
	struct seen seen = {0};
	p = pcap_open_offline(path, errors);
	must(pcap_loop(p, -1, see, (u_char *)&seen) == 0);
	must(seen.count == 50);
	pcap_close(p);
	return NULL;
}

TEST(savefiles_of_several_threads, "pcap_dump_open pcap_dump pcap_open_offline")
{
	together(dump_own);
}

static void *loop_for_ever(void *number)
{
	(void)number;
	struct seen seen = {0};
	pcap_loop(shared, -1, see, (u_char *)&seen);
	return NULL;
}

TEST(a_thread_that_waits_can_be_cancelled, "pcap_loop pcap_close")
{
	for (int packets = 0; packets < 2; packets++) {
		pthread_t thread;
		void *result = NULL;
		shared = live();
		pthread_create(&thread, NULL, loop_for_ever, NULL);
		if (packets)
			send_from(peer, 0, 20);
		usleep(50000);
		must(pthread_cancel(thread) == 0);
		must(pthread_join(thread, &result) == 0);
		must(result == PTHREAD_CANCELED);
		pcap_close(shared);
	}
}

static void leave(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	(void)header;
	(void)bytes;
	pthread_exit("left");
}

static void *leave_in_a_callback(void *number)
{
	(void)number;
	pcap_loop(shared, -1, leave, NULL);
	return NULL;
}

TEST(a_thread_may_end_in_a_callback, "pcap_loop pcap_close")
{
	pthread_t thread;
	void *result = NULL;
	struct seen seen = {0};
	shared = live();
	pthread_create(&thread, NULL, leave_in_a_callback, NULL);
	send_from(peer, 0, 5);
	must(pthread_join(thread, &result) == 0);
	must(result && strcmp(result, "left") == 0);
	/* Another thread continues with the handle, with the same packet or the next one. */
	must(pcap_loop(shared, 4, see, (u_char *)&seen) == 0);
	must(seen.count == 4);
	pcap_close(shared);
}

static void *send_without_end(void *number)
{
	(void)number;
	/* Twenty seconds, unless it is stopped. */
	int64_t end = now_ms() + 20000;
	while (!atomic_load(&done) && now_ms() < end)
		send_from(peer, 0, 1000);
	atomic_store(&done, true);
	return NULL;
}

TEST(a_dispatch_ends_while_packets_come_without_end, "pcap_dispatch")
{
	pthread_t thread;
	atomic_store(&done, false);
	pcap_t *p = live();
	pthread_create(&thread, NULL, send_without_end, NULL);
	for (int i = 0; i < 5; i++) {
		struct seen seen = {0};
		/* At most one buffer (pcap_dispatch(3)). */
		must(pcap_dispatch(p, -1, see, (u_char *)&seen) >= 0);
		must(!atomic_load(&done));
	}
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	pcap_close(p);
}
