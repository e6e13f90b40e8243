/* Sending, directions and statistics. */
#define GROUP "send"
#include "suite.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static pcap_t *on_peer(void)
{
	const char *own = device;
	device = peer;
	pcap_t *p = live_at_once();
	device = own;
	return p;
}

TEST(what_is_sent_arrives, "pcap_inject pcap_sendpacket")
{
	const unsigned lengths[] = {60, 64, 100, 1000, 1514};
	pcap_t *p = live(), *other = on_peer();
	for (unsigned i = 0; i < 5; i++) {
		uint8_t frame[1514];
		struct pcap_pkthdr *at;
		const u_char *bytes;
		build(frame, lengths[i], i);
		if (i % 2)
			must(pcap_inject(p, frame, lengths[i]) == (int)lengths[i]);
		else
			must(pcap_sendpacket(p, frame, lengths[i]) == 0);
		int status = 0;
		for (int64_t end = now_ms() + 5000; status == 0 && now_ms() < end;)
			status = pcap_next_ex(other, &at, &bytes);
		must(status == 1);
		if (status == 1)
			must(at->len == lengths[i] && memcmp(bytes, frame, lengths[i]) == 0);
	}
	pcap_close(p);
	pcap_close(other);
}

TEST(all_of_many_are_sent_in_order, "pcap_inject")
{
	struct seen seen = {0};
	pcap_t *p = live(), *other = on_peer();
	for (int i = 0; i < 200; i++) {
		uint8_t frame[FRAME];
		build(frame, sizeof(frame), i);
		/* One flow. */
		frame[34] = frame[35] = 9;
		must(pcap_inject(p, frame, sizeof(frame)) == FRAME);
	}
	read_until(other, &seen, 200);
	must(seen.count == 200);
	for (int i = 0; i < seen.count; i++)
		must(seen.numbers[i] == (uint32_t)i);
	pcap_close(p);
	pcap_close(other);
}

TEST(sizes_that_cannot_be_sent, "pcap_inject pcap_sendpacket")
{
	static uint8_t large[70000];
	pcap_t *p = live();
	build(large, 1514, 1);
	/* The texts contain the text of errno. */
	errno = 0;
	SAY(p, pcap_inject(p, large, 0));
	errno = 0;
	SAY(p, pcap_sendpacket(p, large, 0));
	errno = 0;
	SAY(p, pcap_sendpacket(p, large, -1));
	errno = 0;
	SAY(p, pcap_inject(p, large, (size_t)INT_MAX + 1));
	errno = EAGAIN;
	SAY(p, pcap_inject(p, NULL, 0));
	SAY(p, pcap_inject(p, large, 1));
	SAY(p, pcap_inject(p, large, 13));
	SAY(p, pcap_inject(p, large, 14));
	SAY(p, pcap_inject(p, large, 1514));
	SAY(p, pcap_inject(p, large, 1515));
	SAY(p, pcap_inject(p, large, 1518));
	SAY(p, pcap_inject(p, large, 1519));
	SAY(p, pcap_inject(p, large, 9000));
	SAY(p, pcap_sendpacket(p, large, 65536));
	SAY(p, pcap_sendpacket(p, large, 70000));
	/* Sending still works. */
	SAY(p, pcap_sendpacket(p, large, 100));
	pcap_close(p);
}

TEST(a_tagged_frame_may_be_longer, "pcap_inject")
{
	uint8_t frame[1600] = {0};
	pcap_t *p = live();
	build(frame, 1514, 1);
	memcpy(frame + 12, "\x81\x00\x00\x05", 4);
	SAY(p, pcap_inject(p, frame, 1518));
	SAY(p, pcap_inject(p, frame, 1519));
	pcap_close(p);
}

TEST(an_interface_that_is_down_sends_nothing, "pcap_inject")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	uint8_t frame[FRAME];
	build(frame, sizeof(frame), 1);
	pcap_t *p = pcap_open_live(doomed, 2048, 0, 10, errors);
	must(pcap_inject(p, frame, sizeof(frame)) == FRAME);
	shell("ip link set %s down", doomed);
	SAY(p, pcap_inject(p, frame, sizeof(frame)));
	shell("ip link set %s up", doomed);
	/* The first packet may still return the error that it was down. */
	pcap_inject(p, frame, sizeof(frame));
	must(pcap_inject(p, frame, sizeof(frame)) == FRAME);
	pcap_close(p);
}

TEST(who_only_sends_needs_no_read, "pcap_inject pcap_setfilter")
{
	struct seen seen = {0};
	pcap_t *p = live(), *other = on_peer();
	struct bpf_program none = compiled(p, "less 0");
	must(pcap_setfilter(p, &none) == 0);
	pcap_freecode(&none);
	for (int i = 0; i < 100; i++) {
		uint8_t frame[FRAME];
		build(frame, sizeof(frame), i);
		must(pcap_sendpacket(p, frame, sizeof(frame)) == 0);
	}
	read_until(other, &seen, 100);
	must(seen.count == 100);
	pcap_close(p);
	pcap_close(other);
}

static void seen_with(const char *name, pcap_t *p)
{
	struct seen seen = {0};
	uint8_t frame[FRAME];
	send_from(peer, 1, 3);
	send_from(device, 100, 2);
	build(frame, sizeof(frame), 200);
	must(pcap_sendpacket(p, frame, sizeof(frame)) == 0);
	read_all(p, &seen);
	say("%s: %d", name, seen.count);
	int in = 0, out = 0, own = 0;
	for (int i = 0; i < seen.count; i++) {
		in += seen.numbers[i] < 100;
		out += seen.numbers[i] >= 100 && seen.numbers[i] < 200;
		own += seen.numbers[i] == 200;
	}
	say("%s, in out own: %d %d %d", name, in, out, own);
}

TEST(directions, "pcap_setdirection")
{
	pcap_t *p = live_at_once();
	seen_with("before", p);
	SAY(p, pcap_setdirection(p, PCAP_D_IN));
	seen_with("in", p);
	SAY(p, pcap_setdirection(p, PCAP_D_OUT));
	seen_with("out", p);
	SAY(p, pcap_setdirection(p, PCAP_D_INOUT));
	seen_with("inout", p);
	SAY(p, pcap_setdirection(p, (pcap_direction_t)3));
	SAY(p, pcap_setdirection(p, (pcap_direction_t)-1));
	seen_with("after wrong ones", p);
	pcap_close(p);
}

TEST(a_direction_and_a_filter, "pcap_setdirection pcap_setfilter")
{
	pcap_t *p = live_at_once();
	must(pcap_setdirection(p, PCAP_D_IN) == 0);
	only_ours(p);
	seen_with("in", p);
	must(pcap_setdirection(p, PCAP_D_OUT) == 0);
	seen_with("out", p);
	struct bpf_program program = compiled(p, "outbound");
	must(pcap_setfilter(p, &program) == 0);
	pcap_freecode(&program);
	must(pcap_setdirection(p, PCAP_D_INOUT) == 0);
	/* The system's library filters the first packets itself, and does not know their direction. */
	struct seen first = {0};
	for (int i = 0; i < 3; i++)
		send_from(device, 1, 20);
	read_all(p, &first);
	seen_with("outbound", p);
	pcap_close(p);
}

TEST(directions_of_a_loopback, "pcap_setdirection")
{
	const int directions[] = {PCAP_D_INOUT, PCAP_D_IN, PCAP_D_OUT};
	for (int i = 0; i < 3; i++) {
		char errors[PCAP_ERRBUF_SIZE] = "";
		struct seen seen = {0};
		pcap_t *p = pcap_open_live("lo", 2048, 0, 10, errors);
		only_ours(p);
		must(pcap_setnonblock(p, 1, errors) == 0);
		SAY(p, pcap_setdirection(p, directions[i]));
		send_from("lo", 0, 4);
		read_all(p, &seen);
		say("seen %d: %d", i, seen.count);
		pcap_close(p);
	}
}

TEST(packets_are_counted, "pcap_stats")
{
	struct seen seen = {0};
	struct pcap_stat stats = {99, 99, 99};
	pcap_t *p = live_at_once();
	must(pcap_stats(p, &stats) == 0);
	say("at first: %u %u %u", stats.ps_recv, stats.ps_drop, stats.ps_ifdrop);
	send_from(peer, 0, 10);
	read_until(p, &seen, 10);
	must(pcap_stats(p, &stats) == 0);
	must(stats.ps_recv == 10 && stats.ps_drop == 0 && stats.ps_ifdrop == 0);
	/* Counts are sums since activation. */
	send_from(peer, 0, 5);
	read_until(p, &seen, 15);
	must(pcap_stats(p, &stats) == 0);
	must(pcap_stats(p, &stats) == 0);
	must(stats.ps_recv == 15 && stats.ps_drop == 0);
	pcap_close(p);
}

TEST(what_a_filter_refuses_is_not_counted, "pcap_stats pcap_setfilter")
{
	struct seen seen = {0};
	struct pcap_stat stats;
	pcap_t *p = live_at_once();
	struct bpf_program program = compiled(p, "udp src port 10001 and dst port 4747");
	must(pcap_setfilter(p, &program) == 0);
	pcap_freecode(&program);
	send_from(peer, 0, 160);
	read_until(p, &seen, 10);
	must(seen.count == 10);
	must(pcap_stats(p, &stats) == 0);
	must(stats.ps_recv == 10 && stats.ps_drop == 0);
	pcap_close(p);
}

TEST(unread_packets_are_counted, "pcap_stats")
{
	struct pcap_stat stats;
	pcap_t *p = live();
	send_from(peer, 0, 20);
	usleep(100000);
	must(pcap_stats(p, &stats) == 0);
	must(stats.ps_recv == 20 && stats.ps_drop == 0);
	pcap_close(p);
}

TEST(lost_packets_are_counted, "pcap_stats pcap_set_buffer_size")
{
	struct seen seen = {0};
	struct pcap_stat stats = {0};
	pcap_t *p = created();
	pcap_set_buffer_size(p, 65536);
	pcap_set_immediate_mode(p, 1);
	must(pcap_activate(p) == 0);
	only_ours(p);
	/* More packets than fit any ring: in this mode, a block lasts for a millisecond. */
	for (int i = 0; i < 100; i++)
		send_from(peer, i * 1000, 1000);
	char errors[PCAP_ERRBUF_SIZE];
	must(pcap_setnonblock(p, 1, errors) == 0);
	read_all(p, &seen);
	must(pcap_stats(p, &stats) == 0);
	/* The received packets include the dropped ones (packet(7), PACKET_STATISTICS). */
	must(stats.ps_recv == 100000);
	must(stats.ps_drop > 0);
	must(stats.ps_recv == seen.count + stats.ps_drop);
	pcap_close(p);
}

TEST(only_incoming_ones_are_counted_if_only_they_are_wanted, "pcap_stats pcap_setdirection")
{
	struct seen seen = {0};
	struct pcap_stat stats;
	pcap_t *p = live_at_once();
	must(pcap_setdirection(p, PCAP_D_IN) == 0);
	send_from(device, 0, 10);
	send_from(peer, 0, 10);
	read_all(p, &seen);
	must(seen.count == 10);
	must(pcap_stats(p, &stats) == 0);
	say("received: %u", stats.ps_recv);
	say("dropped: %u", stats.ps_drop);
	pcap_close(p);
}

TEST(promiscuous_handles_count_what_the_interface_drops, "pcap_stats pcap_set_promisc")
{
	struct pcap_stat stats;
	pcap_t *p = created();
	pcap_set_promisc(p, 1);
	must(pcap_activate(p) == 0);
	must(pcap_stats(p, &stats) == 0);
	say("interface: %u", stats.ps_ifdrop);
	pcap_close(p);
}

TEST(frames_for_others_are_seen_in_promiscuous_mode_only, "pcap_set_promisc")
{
	/* A veth interface filters no addresses, but reports the mode. */
	shell("ip -d link show %s | grep -q 'promiscuity 0'", device);
	pcap_t *p = created();
	pcap_set_promisc(p, 1);
	must(pcap_activate(p) == 0);
	shell("ip -d link show %s | grep -q 'promiscuity 1'", device);
	pcap_t *plain = live();
	shell("ip -d link show %s | grep -q 'promiscuity 1'", device);
	pcap_close(plain);
	pcap_close(p);
	shell("ip -d link show %s | grep -q 'promiscuity 0'", device);
}
