/* Reading packets: counts, contents, waiting. */
#define GROUP "read"
#include "suite.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

TEST(a_loop_ends_after_its_count, "pcap_loop")
{
	struct seen seen = {0};
	pcap_t *p = live();
	send_from(peer, 0, 10);
	must(pcap_loop(p, 4, see, (u_char *)&seen) == 0);
	must(seen.count == 4);
	must(pcap_loop(p, 1, see, (u_char *)&seen) == 0);
	must(pcap_loop(p, 5, see, (u_char *)&seen) == 0);
	must(seen.count == 10);
	for (int i = 0; i < 10; i++)
		must(seen.numbers[i] == (uint32_t)i);
	pcap_close(p);
}

TEST(a_dispatch_takes_no_more_than_its_count, "pcap_dispatch")
{
	struct seen seen = {0};
	pcap_t *p = live_at_once();
	send_from(peer, 0, 10);
	int total = 0, calls = 0;
	while (total < 10 && calls++ < 100000) {
		int got = pcap_dispatch(p, 3, see, (u_char *)&seen);
		must(got >= 0 && got <= 3);
		total += got;
		must(seen.count == total);
	}
	must(total == 10);
	must(pcap_dispatch(p, 3, see, (u_char *)&seen) == 0);
	pcap_close(p);
}

TEST(no_count_takes_what_is_there, "pcap_dispatch")
{
	const int counts[] = {-1, 0, -5};
	for (int i = 0; i < 3; i++) {
		struct seen seen = {0};
		pcap_t *p = live_at_once();
		send_from(peer, 0, 200);
		usleep(50000);
		int total = 0;
		for (int calls = 0; calls < 20 && total < 200; calls++) {
			int got = pcap_dispatch(p, counts[i], see, (u_char *)&seen);
			must(got >= 0);
			total += got;
		}
		must(total == 200 && seen.count == 200);
		pcap_close(p);
	}
}

static void check_frame(pcap_t *p, const struct pcap_pkthdr *header, const u_char *bytes, uint32_t number)
{
	uint8_t frame[FRAME];
	build(frame, sizeof(frame), number);
	must(header->len == FRAME);
	unsigned expected = pcap_snapshot(p) < FRAME ? pcap_snapshot(p) : FRAME;
	must(header->caplen == expected);
	must(memcmp(bytes, frame, expected) == 0);
}

TEST(packets_one_by_one, "pcap_next pcap_next_ex")
{
	pcap_t *p = live();
	struct pcap_pkthdr header, *at = NULL;
	const u_char *bytes = NULL;
	send_from(peer, 0, 4);
	bytes = pcap_next(p, &header);
	must(bytes != NULL);
	check_frame(p, &header, bytes, 0);
	must(pcap_next_ex(p, &at, &bytes) == 1);
	check_frame(p, at, bytes, 1);
	bytes = pcap_next(p, &header);
	must(bytes != NULL);
	check_frame(p, &header, bytes, 2);
	must(pcap_next_ex(p, &at, &bytes) == 1);
	check_frame(p, at, bytes, 3);
	pcap_close(p);
}

TEST(a_packet_stays_until_the_next_one_is_asked_for, "pcap_next pcap_next_ex")
{
	pcap_t *p = live_at_once();
	struct pcap_pkthdr *at = NULL;
	const u_char *bytes = NULL;
	send_from(peer, 0, 1);
	int status;
	while ((status = pcap_next_ex(p, &at, &bytes)) == 0)
		;
	must(status == 1);
	/* Later packets must not overwrite it, however many arrive. */
	send_from(peer, 100, 2000);
	check_frame(p, at, bytes, 0);
	struct pcap_stat stats;
	must(pcap_stats(p, &stats) == 0);
	check_frame(p, at, bytes, 0);
	pcap_close(p);
}

TEST(packets_are_cut_at_the_snapshot_length, "pcap_set_snaplen pcap_next_ex")
{
	const int lengths[] = {1, 14, 50, 99, 100, 101};
	for (unsigned i = 0; i < 6; i++) {
		pcap_t *p = created();
		pcap_set_snaplen(p, lengths[i]);
		must(pcap_activate(p) == 0);
		must(pcap_snapshot(p) == lengths[i]);
		struct pcap_pkthdr *at;
		const u_char *bytes;
		/* Without a filter: a filter of the system's library sees only the captured bytes. */
		send_from(peer, 3, 1);
		int status = pcap_next_ex(p, &at, &bytes);
		must(status == 1);
		if (status == 1)
			check_frame(p, at, bytes, 3);
		pcap_close(p);
	}
}

TEST(frames_of_all_lengths, "pcap_next_ex")
{
	const unsigned lengths[] = {60, 61, 64, 100, 511, 1000, 1513, 1514};
	pcap_t *p = live();
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		uint8_t frame[1514];
		struct pcap_pkthdr *at;
		const u_char *bytes;
		build(frame, lengths[i], i);
		send_bytes(peer, frame, lengths[i]);
		must(pcap_next_ex(p, &at, &bytes) == 1);
		must(at->caplen == lengths[i] && at->len == lengths[i]);
		must(memcmp(bytes, frame, lengths[i]) == 0);
	}
	pcap_close(p);
}

struct times {
	int count;
	int64_t last_ns;
	bool in_order;
	int unit;
};

static void watch(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct times *times = (struct times *)user;
	(void)bytes;
	int64_t at = header->ts.tv_sec * 1000000000LL + (int64_t)header->ts.tv_usec * times->unit;
	if (at < times->last_ns)
		times->in_order = false;
	times->last_ns = at;
	times->count++;
}

static void check_times(int precision)
{
	struct times times = {.in_order = true, .unit = precision == PCAP_TSTAMP_PRECISION_NANO ? 1 : 1000};
	pcap_t *p = created();
	must(pcap_set_tstamp_precision(p, precision) == 0);
	must(pcap_activate(p) == 0);
	only_ours(p);
	struct timeval before, after;
	gettimeofday(&before, NULL);
	send_from(peer, 0, 500);
	gettimeofday(&after, NULL);
	must(pcap_loop(p, 500, watch, (u_char *)&times) == 0);
	must(times.count == 500 && times.in_order);
	must(times.last_ns >= before.tv_sec * 1000000000LL + before.tv_usec * 1000LL);
	/* The kernel may be late to take the last packets. */
	must(times.last_ns <= (after.tv_sec + 2) * 1000000000LL);
	pcap_close(p);
}

TEST(times_are_those_of_arrival_and_do_not_go_back, "pcap_loop")
{
	check_times(PCAP_TSTAMP_PRECISION_MICRO);
}

TEST(times_have_nanoseconds_if_asked, "pcap_set_tstamp_precision pcap_loop")
{
	check_times(PCAP_TSTAMP_PRECISION_NANO);
}

TEST(the_programs_pointer_is_passed_on, "pcap_dispatch pcap_loop")
{
	struct seen one = {0}, other = {0};
	pcap_t *p = live();
	send_from(peer, 0, 4);
	must(pcap_loop(p, 1, see, (u_char *)&one) == 0);
	must(pcap_loop(p, 3, see, (u_char *)&other) == 0);
	must(one.count == 1 && other.count == 3);
	pcap_close(p);
}

TEST(non_blocking_mode_never_waits, "pcap_setnonblock pcap_getnonblock pcap_dispatch pcap_next pcap_next_ex")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct pcap_pkthdr header, *at;
	const u_char *bytes;
	struct seen seen = {0};
	pcap_t *p = live();
	must(pcap_getnonblock(p, errors) == 0);
	must(pcap_setnonblock(p, 1, errors) == 0);
	must(pcap_getnonblock(p, errors) == 1);
	must(pcap_setnonblock(p, 5, errors) == 0);
	SAY(p, pcap_getnonblock(p, errors));
	int64_t start = now_ms();
	must(pcap_dispatch(p, -1, see, (u_char *)&seen) == 0);
	must(pcap_dispatch(p, 1, see, (u_char *)&seen) == 0);
	must(pcap_next(p, &header) == NULL);
	must(pcap_next_ex(p, &at, &bytes) == 0);
	must(now_ms() - start < 3000);
	must(pcap_setnonblock(p, 0, errors) == 0);
	must(pcap_getnonblock(p, errors) == 0);
	send_from(peer, 0, 3);
	must(pcap_loop(p, 3, see, (u_char *)&seen) == 0);
	pcap_close(p);
}

TEST(a_descriptor_is_readable_when_packets_are, "pcap_get_selectable_fd pcap_dispatch")
{
	char errors[PCAP_ERRBUF_SIZE];
	struct seen seen = {0};
	pcap_t *p = live();
	must(pcap_setnonblock(p, 1, errors) == 0);
	struct pollfd poll_fd = {.fd = pcap_get_selectable_fd(p), .events = POLLIN};
	must(poll(&poll_fd, 1, 30) == 0);
	for (int round = 0; round < 3; round++) {
		send_from(peer, round * 10, 10);
		while (seen.count < (round + 1) * 10) {
			must(poll(&poll_fd, 1, 5000) == 1 && poll_fd.revents == POLLIN);
			int got = pcap_dispatch(p, -1, see, (u_char *)&seen);
			must(got >= 0);
			if (poll_fd.revents != POLLIN || got < 0)
				break;
		}
		/* Not readable once all packets are read. */
		must(poll(&poll_fd, 1, 30) == 0);
	}
	must(seen.count == 30);
	for (int i = 0; i < seen.count; i++)
		must(seen.numbers[i] == (uint32_t)i);
	pcap_close(p);
}

TEST(a_descriptor_does_not_spin_while_packets_are_left, "pcap_get_selectable_fd pcap_dispatch")
{
	/* Packets left after a count may make the descriptor readable; none is lost. */
	struct seen seen = {0};
	pcap_t *p = live_at_once();
	struct pollfd poll_fd = {.fd = pcap_get_selectable_fd(p), .events = POLLIN};
	send_from(peer, 0, 100);
	int64_t end = now_ms() + 5000;
	while (seen.count < 100 && now_ms() < end) {
		poll(&poll_fd, 1, 100);
		while (pcap_dispatch(p, 7, see, (u_char *)&seen) > 0)
			;
	}
	must(seen.count == 100);
	for (int i = 0; i < 100; i++)
		must(seen.numbers[i] == (uint32_t)i);
	must(poll(&poll_fd, 1, 50) == 0);
	pcap_close(p);
}

TEST(immediate_mode_does_not_wait_for_a_timeout, "pcap_set_immediate_mode pcap_next_ex")
{
	struct pcap_pkthdr *at;
	const u_char *bytes;
	pcap_t *p = created();
	pcap_set_timeout(p, 30000);
	pcap_set_immediate_mode(p, 1);
	must(pcap_activate(p) == 0);
	only_ours(p);
	for (int i = 0; i < 3; i++) {
		int64_t start = now_ms();
		send_from(peer, i, 1);
		must(pcap_next_ex(p, &at, &bytes) == 1);
		must(now_ms() - start < 10000);
	}
	pcap_close(p);
}

TEST(a_timeout_delivers_what_is_there, "pcap_set_timeout pcap_dispatch")
{
	const int timeouts[] = {1, 20, 200};
	for (int i = 0; i < 3; i++) {
		struct seen seen = {0};
		pcap_t *p = created();
		pcap_set_timeout(p, timeouts[i]);
		must(pcap_activate(p) == 0);
		only_ours(p);
		send_from(peer, 0, 3);
		int64_t start = now_ms();
		while (seen.count < 3 && now_ms() < start + 10000)
			must(pcap_dispatch(p, -1, see, (u_char *)&seen) >= 0);
		must(seen.count == 3);
		pcap_close(p);
	}
}

TEST(without_a_timeout_packets_still_come, "pcap_set_timeout pcap_loop")
{
	/* A timeout of 0 may wait until a buffer is full: enough packets are delivered in any case. */
	struct seen seen = {0};
	pcap_t *p = created();
	pcap_set_timeout(p, 0);
	must(pcap_activate(p) == 0);
	only_ours(p);
	for (int i = 0; i < 4; i++)
		send_from(peer, i * 1000, 1000);
	must(pcap_loop(p, 100, see, (u_char *)&seen) == 0);
	must(seen.count == 100 && seen.numbers[99] == 99);
	pcap_close(p);
}

TEST(queues_are_merged_in_order, "pcap_loop")
{
	struct seen seen = {0};
	pcap_t *p = live();
	/* Sixteen flows, so on several queues. */
	send_from(peer, 0, 1000);
	must(pcap_loop(p, 1000, see, (u_char *)&seen) == 0);
	for (int i = 0; i < 1000; i++)
		must(seen.numbers[i] == (uint32_t)i);
	pcap_close(p);
}

struct inside {
	pcap_t *p;
	struct seen seen;
	int answers[8];
};

static void call_back(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct inside *in = (struct inside *)user;
	char errors[PCAP_ERRBUF_SIZE];
	struct pcap_stat stats;
	if (number_of(bytes, header->caplen) < 0)
		return;
	see((u_char *)&in->seen, header, bytes);
	uint8_t frame[FRAME];
	memcpy(frame, bytes, sizeof(frame));
	in->answers[0] = pcap_stats(in->p, &stats);
	in->answers[1] = pcap_datalink(in->p);
	in->answers[2] = pcap_snapshot(in->p);
	in->answers[3] = pcap_getnonblock(in->p, errors);
	in->answers[4] = (int)strlen(pcap_geterr(in->p));
	/* Sent on the device, and received by the peer. */
	frame[37] = 0;
	in->answers[5] = pcap_sendpacket(in->p, frame, sizeof(frame));
	in->answers[6] = pcap_inject(in->p, frame, sizeof(frame));
	in->answers[7] = pcap_fileno(in->p) >= 0;
	/* The packet is unchanged. */
	must(number_of(bytes, header->caplen) == (int64_t)in->seen.numbers[in->seen.count - 1]);
}

TEST(a_callback_may_use_its_handle, "pcap_loop pcap_stats pcap_inject pcap_sendpacket")
{
	struct inside in = {.p = live()};
	send_from(peer, 0, 5);
	must(pcap_loop(in.p, 5, call_back, (u_char *)&in) == 0);
	for (int i = 0; i < 8; i++)
		say("answer %d: %d", i, in.answers[i]);
	must(in.seen.count == 5);
	pcap_close(in.p);
}

static void narrow(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct inside *in = (struct inside *)user;
	see((u_char *)&in->seen, header, bytes);
	if (in->seen.count == 1) {
		struct bpf_program program = compiled(in->p, "udp src port 10005 and dst port 4747");
		in->answers[0] = pcap_setfilter(in->p, &program);
		pcap_freecode(&program);
	}
}

TEST(a_callback_may_set_a_filter, "pcap_setfilter pcap_dispatch")
{
	struct inside in = {.p = live_at_once()};
	send_from(peer, 0, 32);
	int64_t end = now_ms() + 2000;
	while (now_ms() < end && in.seen.count < 3)
		must(pcap_dispatch(in.p, -1, narrow, (u_char *)&in) >= 0);
	must(in.answers[0] == 0);
	must(in.seen.count == 3);
	must(in.seen.numbers[0] == 0 && in.seen.numbers[1] == 5 && in.seen.numbers[2] == 21);
	pcap_close(in.p);
}

TEST(handles_on_one_interface_see_the_same, "pcap_loop")
{
	struct seen seen[3] = {0};
	pcap_t *p[3];
	for (int i = 0; i < 3; i++)
		p[i] = live();
	send_from(peer, 0, 20);
	for (int i = 0; i < 3; i++) {
		must(pcap_loop(p[i], 20, see, (u_char *)&seen[i]) == 0);
		must(seen[i].numbers[19] == 19);
	}
	for (int i = 0; i < 3; i++)
		pcap_close(p[i]);
}

TEST(packets_that_come_slowly_wait_to_be_read, "pcap_set_immediate_mode pcap_dispatch pcap_stats")
{
	/* A program is busy for a while, in which some packets arrive. */
	struct seen seen = {0};
	struct pcap_stat stats;
	pcap_t *p = live_at_once();
	for (int i = 0; i < 200; i++) {
		send_from(peer, i * 16, 1);
		usleep(2000);
	}
	read_until(p, &seen, 200);
	must(pcap_stats(p, &stats) == 0);
	must(stats.ps_recv == 200 && stats.ps_drop == 0);
	must(seen.count == 200);
	pcap_close(p);
}
