/* Creating a handle, its options, activating it, and opening in one step. */
#define GROUP "options"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(any_name_makes_a_handle, "pcap_create pcap_close")
{
	const char *names[] = {device, down, "any", "no-such-if", "",
			       "a-name-that-is-longer-than-an-interface-has"};
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char errors[PCAP_ERRBUF_SIZE] = "";
		pcap_t *p = pcap_create(names[i], errors);
		must(p != NULL);
		say("create %u: %d, %s", i, p != NULL, errors);
		pcap_close(p);
	}
}

TEST(no_name_is_any, "pcap_create pcap_activate")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_create(NULL, errors);
	must(p != NULL);
	SAY(p, pcap_activate(p));
	SAY(p, pcap_datalink(p));
	pcap_close(p);
}

TEST(options_are_taken_before_activation,
     "pcap_set_snaplen pcap_set_promisc pcap_set_timeout pcap_set_buffer_size pcap_set_immediate_mode "
     "pcap_set_tstamp_type pcap_set_tstamp_precision pcap_set_rfmon pcap_set_protocol_linux")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_create(device, errors);
	must(pcap_set_snaplen(p, 96) == 0);
	must(pcap_set_promisc(p, 1) == 0);
	must(pcap_set_timeout(p, 10) == 0);
	must(pcap_set_buffer_size(p, 1 << 20) == 0);
	must(pcap_set_immediate_mode(p, 1) == 0);
	must(pcap_set_rfmon(p, 0) == 0);
	must(pcap_set_tstamp_type(p, PCAP_TSTAMP_HOST) == 0);
	must(pcap_set_tstamp_precision(p, PCAP_TSTAMP_PRECISION_NANO) == 0);
	must(pcap_get_tstamp_precision(p) == PCAP_TSTAMP_PRECISION_NANO);
	SAY(p, pcap_set_protocol_linux(p, 0));
	must(pcap_activate(p) == 0);
	must(pcap_snapshot(p) == 96);
	must(pcap_get_tstamp_precision(p) == PCAP_TSTAMP_PRECISION_NANO);
	pcap_close(p);
}

TEST(values_out_of_range_are_answered_alike,
     "pcap_set_snaplen pcap_set_timeout pcap_set_buffer_size pcap_set_tstamp_type pcap_set_tstamp_precision")
{
	const int values[] = {-2147483647 - 1, -1, 0, 1, 2, 3, 4, 5, 6, 99, 262144, 262145, 2147483647};
	for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
		pcap_t *p = created();
		int value = values[i];
		say("snaplen %d: %d", value, pcap_set_snaplen(p, value));
		say("timeout %d: %d", value, pcap_set_timeout(p, value));
		say("promisc %d: %d", value, pcap_set_promisc(p, value));
		say("immediate %d: %d", value, pcap_set_immediate_mode(p, value));
		say("type %d: %d", value, pcap_set_tstamp_type(p, value));
		say("precision %d: %d", value, pcap_set_tstamp_precision(p, value));
		say("precision is %d: %d", value, pcap_get_tstamp_precision(p));
		if (value <= 0)
			say("buffer %d: %d", value, pcap_set_buffer_size(p, value));
		say("text %d: %s", value, pcap_geterr(p));
		say("activate %d: %d", value, pcap_activate(p));
		say("snapshot %d: %d", value, pcap_snapshot(p));
		pcap_close(p);
	}
}

TEST(buffers_of_many_sizes, "pcap_set_buffer_size")
{
	const int sizes[] = {1, 4095, 4096, 65536, 100001, 1 << 20, 3000000, 1 << 24};
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct seen seen = {0};
		pcap_t *p = created();
		must(pcap_set_buffer_size(p, sizes[i]) == 0);
		int status = pcap_activate(p);
		say("activate with %d: %d, %s", sizes[i], status, pcap_geterr(p));
		/* A small ring of the system's library may have no room for a packet. */
		if (status == 0 && sizes[i] >= 1 << 20) {
			only_ours(p);
			send_from(peer, 0, 5);
			must(pcap_loop(p, 5, see, (u_char *)&seen) == 0);
			must(seen.count == 5);
		}
		pcap_close(p);
	}
}

TEST(options_are_refused_after_activation,
     "pcap_set_snaplen pcap_set_promisc pcap_set_timeout pcap_set_buffer_size pcap_set_immediate_mode "
     "pcap_set_tstamp_type pcap_set_tstamp_precision pcap_set_rfmon pcap_set_protocol_linux")
{
	pcap_t *p = live();
	int snapshot = pcap_snapshot(p);
	SAY(p, pcap_set_snaplen(p, 96));
	SAY(p, pcap_set_promisc(p, 1));
	SAY(p, pcap_set_timeout(p, 1));
	SAY(p, pcap_set_buffer_size(p, 1 << 20));
	SAY(p, pcap_set_buffer_size(p, 0));
	SAY(p, pcap_set_immediate_mode(p, 1));
	SAY(p, pcap_set_tstamp_type(p, PCAP_TSTAMP_HOST));
	SAY(p, pcap_set_tstamp_precision(p, PCAP_TSTAMP_PRECISION_NANO));
	SAY(p, pcap_set_rfmon(p, 1));
	SAY(p, pcap_set_protocol_linux(p, 0x0800));
	must(pcap_set_snaplen(p, 96) == PCAP_ERROR_ACTIVATED);
	must(pcap_snapshot(p) == snapshot);
	must(pcap_get_tstamp_precision(p) == PCAP_TSTAMP_PRECISION_MICRO);
	pcap_close(p);
}

TEST(a_second_activation_is_refused_and_harmless, "pcap_activate")
{
	struct seen seen = {0};
	pcap_t *p = live_at_once();
	SAY(p, pcap_activate(p));
	must(pcap_activate(p) == PCAP_ERROR_ACTIVATED);
	send_from(peer, 1, 3);
	read_until(p, &seen, 3);
	must(seen.count == 3);
	pcap_close(p);
}

static void activate(const char *name, const char *interface)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_create(interface, errors);
	int status = pcap_activate(p);
	say("%s: %d, %s", name, status, pcap_geterr(p));
	pcap_close(p);
}

TEST(what_cannot_be_activated_says_why, "pcap_activate pcap_geterr")
{
	activate("missing", "no-such-if");
	activate("empty", "");
	activate("long", "a-name-that-is-longer-than-an-interface-has");
	activate("just too long", "sixteen-letters0");
	activate("down", down);
	activate("a path", "../../etc/passwd");
	activate("with blanks", "two words");
	activate("format", "%s%n");
}

TEST(a_failed_activation_can_be_closed_and_asked, "pcap_activate pcap_close pcap_datalink pcap_stats")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct pcap_stat stats;
	pcap_t *p = pcap_create("no-such-if", errors);
	must(pcap_activate(p) == PCAP_ERROR_NO_SUCH_DEVICE);
	SAY(p, pcap_datalink(p));
	SAY(p, pcap_snapshot(p));
	SAY(p, pcap_stats(p, &stats));
	SAY(p, pcap_next(p, &(struct pcap_pkthdr){0}) != NULL);
	SAY(p, pcap_dispatch(p, 1, see, NULL));
	pcap_close(p);
}

TEST(snapshot_lengths_are_bounded, "pcap_set_snaplen pcap_snapshot pcap_open_live")
{
	const int values[] = {-1, 0, 1, 14, 65535, 262144, 262145, 2147483647};
	for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char errors[PCAP_ERRBUF_SIZE] = "";
		pcap_t *p = pcap_open_live(device, values[i], 0, 10, errors);
		must(p != NULL);
		say("snapshot for %d: %d", values[i], pcap_snapshot(p));
		pcap_close(p);
	}
}

TEST(opening_in_one_step, "pcap_open_live")
{
	char errors[PCAP_ERRBUF_SIZE] = "before";
	pcap_t *p = pcap_open_live(device, 128, 1, 10, errors);
	must(p != NULL);
	must(pcap_snapshot(p) == 128);
	must(pcap_datalink(p) == DLT_EN10MB);
	SAY(p, pcap_activate(p));
	SAY(p, pcap_set_snaplen(p, 1));
	say("errors: %s", errors);
	pcap_close(p);

	const char *names[] = {"no-such-if", "a-name-that-is-longer-than-an-interface-has", "", down};
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		strcpy(errors, "before");
		p = pcap_open_live(names[i], 128, 0, 10, errors);
		say("open %u: %d, %s", i, p != NULL, errors);
		if (p)
			pcap_close(p);
	}
}

/* The results of each function before activation. */
TEST(before_activation,
     "pcap_datalink pcap_datalink_ext pcap_list_datalinks pcap_set_datalink pcap_snapshot pcap_is_swapped "
     "pcap_major_version pcap_minor_version pcap_bufsize pcap_fileno pcap_file pcap_get_selectable_fd "
     "pcap_get_required_select_timeout pcap_getnonblock pcap_dispatch pcap_loop pcap_next pcap_next_ex pcap_inject "
     "pcap_sendpacket pcap_setfilter pcap_setdirection pcap_stats pcap_compile pcap_breakloop pcap_dump_open")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	int *list = NULL;
	struct pcap_pkthdr header, *header_at = NULL;
	const u_char *bytes = NULL;
	struct pcap_stat stats = {0};
	struct bpf_program program = {0};
	pcap_t *p = created();

	must(pcap_datalink(p) == PCAP_ERROR_NOT_ACTIVATED);
	SAY(p, pcap_datalink(p));
	SAY(p, pcap_datalink_ext(p));
	SAY(p, pcap_list_datalinks(p, &list));
	SAY(p, pcap_set_datalink(p, DLT_EN10MB));
	SAY(p, pcap_set_datalink(p, -1));
	SAY(p, pcap_snapshot(p));
	SAY(p, pcap_is_swapped(p));
	SAY(p, pcap_major_version(p));
	SAY(p, pcap_minor_version(p));
	SAY(p, pcap_bufsize(p));
	SAY(p, pcap_fileno(p));
	say("pcap_file: %d", pcap_file(p) != NULL);
	SAY(p, pcap_get_selectable_fd(p));
	say("select timeout: %d", pcap_get_required_select_timeout(p) != NULL);
	SAY(p, pcap_getnonblock(p, errors));
	say("getnonblock text: %s", errors);
	SAY(p, pcap_dispatch(p, 1, see, NULL));
	SAY(p, pcap_loop(p, 1, see, NULL));
	SAY(p, pcap_next(p, &header) != NULL);
	SAY(p, pcap_next_ex(p, &header_at, &bytes));
	SAY(p, pcap_inject(p, "0123456789abcdef", 16));
	SAY(p, pcap_sendpacket(p, (const u_char *)"0123456789abcdef", 16));
	SAY(p, pcap_setfilter(p, &program));
	SAY(p, pcap_setdirection(p, PCAP_D_IN));
	SAY(p, pcap_stats(p, &stats));
	SAY(p, pcap_compile(p, &program, "udp", 1, 0));
	SAY(p, pcap_dump_open(p, path_of("unused.pcap")) != NULL);
	say("dump_open text: %s", pcap_geterr(p));
	SAY(p, pcap_get_tstamp_precision(p));
	SAY(p, pcap_can_set_rfmon(p));
	pcap_breakloop(p);
	pcap_close(p);
}

TEST(nonblock_before_activation_holds_after_it, "pcap_setnonblock pcap_getnonblock")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = created();
	SAY(p, pcap_setnonblock(p, 1, errors));
	must(pcap_activate(p) == 0);
	must(pcap_getnonblock(p, errors) == 1);
	only_ours(p);
	must(pcap_dispatch(p, -1, see, NULL) == 0);
	pcap_close(p);
}

TEST(monitor_mode, "pcap_can_set_rfmon pcap_set_rfmon")
{
	pcap_t *p = created();
	SAY(p, pcap_can_set_rfmon(p));
	SAY(p, pcap_set_rfmon(p, 1));
	SAY(p, pcap_activate(p));
	say("text: %s", pcap_geterr(p));
	pcap_close(p);

	char errors[PCAP_ERRBUF_SIZE] = "";
	p = pcap_create("any", errors);
	SAY(p, pcap_can_set_rfmon(p) == 0);
	pcap_close(p);
	p = pcap_create("no-such-if", errors);
	say("rfmon of a missing one: %d", pcap_can_set_rfmon(p));
	pcap_close(p);
}

static int open_descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) != -1;
	return count;
}

TEST(closing_leaves_no_descriptor, "pcap_close pcap_activate")
{
	char errors[PCAP_ERRBUF_SIZE];
	/* A library opens its permanent descriptors the first time. */
	pcap_close(live());
	int before = open_descriptors();
	for (int i = 0; i < 3; i++) {
		pcap_t *p = live();
		pcap_close(p);
		p = live_at_once();
		pcap_close(p);
		p = pcap_create("no-such-if", errors);
		pcap_activate(p);
		pcap_close(p);
	}
	must(open_descriptors() == before);
}
