/* Handles that capture nothing. */
#define GROUP "dead"
#include "suite.h"

#include <stdio.h>
#include <string.h>

TEST(a_dead_handle_says_what_it_is_for,
     "pcap_open_dead pcap_open_dead_with_tstamp_precision pcap_datalink pcap_snapshot pcap_get_tstamp_precision")
{
	for (unsigned precision = 0; precision < 3; precision++) {
		pcap_t *p = pcap_open_dead_with_tstamp_precision(DLT_RAW, 77, precision);
		must(p != NULL);
		SAY(p, pcap_datalink(p));
		SAY(p, pcap_snapshot(p));
		SAY(p, pcap_get_tstamp_precision(p));
		SAY(p, pcap_bufsize(p));
		SAY(p, pcap_is_swapped(p));
		SAY(p, pcap_major_version(p));
		SAY(p, pcap_minor_version(p));
		SAY(p, pcap_datalink_ext(p));
		pcap_close(p);
	}
	const int lengths[] = {-1, 0, 1, 2147483647};
	for (int i = 0; i < 4; i++) {
		pcap_t *p = pcap_open_dead(DLT_EN10MB, lengths[i]);
		say("length %d: %d", lengths[i], pcap_snapshot(p));
		pcap_close(p);
	}
}

TEST(a_dead_handle_refuses_the_rest,
     "pcap_dispatch pcap_loop pcap_next pcap_next_ex pcap_inject pcap_sendpacket pcap_setfilter pcap_setdirection "
     "pcap_set_datalink pcap_getnonblock pcap_setnonblock pcap_stats pcap_can_set_rfmon pcap_activate pcap_fileno "
     "pcap_get_selectable_fd pcap_file pcap_breakloop")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct pcap_pkthdr header, *at;
	const u_char *bytes;
	struct pcap_stat stats;
	int *list = NULL;
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 2048);
	struct bpf_program program = compiled(p, "udp");
	SAY(p, pcap_dispatch(p, 1, see, NULL));
	SAY(p, pcap_loop(p, 1, see, NULL));
	say("next: %d", pcap_next(p, &header) != NULL);
	SAY(p, pcap_next_ex(p, &at, &bytes));
	SAY(p, pcap_inject(p, "0123456789abcdef", 16));
	SAY(p, pcap_sendpacket(p, (const u_char *)"0123456789abcdef", 16));
	SAY(p, pcap_setfilter(p, &program));
	SAY(p, pcap_setdirection(p, PCAP_D_IN));
	SAY(p, pcap_set_datalink(p, DLT_EN10MB));
	SAY(p, pcap_set_datalink(p, DLT_RAW));
	SAY(p, pcap_list_datalinks(p, &list));
	pcap_free_datalinks(list);
	SAY(p, pcap_getnonblock(p, errors));
	say("text: %s", errors);
	errors[0] = 0;
	SAY(p, pcap_setnonblock(p, 1, errors));
	say("text of set: %s", errors);
	SAY(p, pcap_stats(p, &stats));
	SAY(p, pcap_can_set_rfmon(p));
	SAY(p, pcap_activate(p));
	SAY(p, pcap_set_snaplen(p, 1));
	SAY(p, pcap_set_timeout(p, 1));
	SAY(p, pcap_fileno(p));
	SAY(p, pcap_get_selectable_fd(p));
	say("file: %d", pcap_file(p) != NULL);
	say("select timeout: %d", pcap_get_required_select_timeout(p) != NULL);
	pcap_breakloop(p);
	pcap_freecode(&program);
	pcap_close(p);
}

TEST(a_dead_handle_compiles_for_any_link_type, "pcap_compile pcap_open_dead")
{
	for (int type = -1; type < 300; type++) {
		struct bpf_program program = {0};
		char name[32];
		pcap_t *p = pcap_open_dead(type, 128);
		snprintf(name, sizeof(name), "type %d", type);
		say_status(name, pcap_compile(p, &program, "ip", 1, 0), p);
		for (unsigned i = 0; i < program.bf_len; i++)
			say("%s %u: %s", name, i, bpf_image(&program.bf_insns[i], i));
		pcap_freecode(&program);
		pcap_close(p);
	}
}

TEST(a_dead_handle_writes_files, "pcap_dump_open")
{
	for (int type = -1; type < 300; type++) {
		pcap_t *p = pcap_open_dead(type, 128);
		pcap_dumper_t *dumper = pcap_dump_open(p, path_of("dead.pcap"));
		say("type %d: %d, %s", type, dumper != NULL, pcap_geterr(p));
		if (dumper)
			pcap_dump_close(dumper);
		pcap_close(p);
	}
}
