/* Expressions, programs, and the packets that they accept. */
#define GROUP "filter"
#include "suite.h"

#include <stdio.h>
#include <string.h>

static void show(const char *name, const struct bpf_program *program)
{
	for (unsigned i = 0; i < program->bf_len; i++)
		say("%s %u: %s", name, i, bpf_image(&program->bf_insns[i], i));
}

static const char *const expressions[] = {
	"", "ip", "udp", "tcp port 80", "udp dst port 4747", "host 198.51.100.1", "net 10.0.0.0/8",
	"ether host 02:57:4c:00:00:01", "ip6", "arp or rarp", "icmp[icmptype] == icmp-echo", "portrange 10-20",
	"len > 100", "greater 64 and less 1000", "vlan", "vlan 5", "vlan and udp", "vlan 5 and vlan 6 and ip",
	"mpls", "pppoes", "ip[8] < 5", "ether[0] & 1 = 0", "not udp", "tcp[tcpflags] & tcp-syn != 0",
	"ip proto 47", "ether proto 0x88b5", "inbound", "outbound", "ip broadcast", "ip multicast", "ether multicast",
	"src or dst port 53", "ip6 host 2001:db8::1", "llc", "link[0] = 1", "ifindex 1", "iso", "decnet host 1.1", "stp",
};

#define EXPRESSIONS (sizeof(expressions) / sizeof(*expressions))

static void compile_all(pcap_t *p)
{
	for (int optimize = 0; optimize < 2; optimize++)
		for (unsigned i = 0; i < EXPRESSIONS; i++) {
			char name[128];
			struct bpf_program program = {0};
			snprintf(name, sizeof(name), "%s (%d)", expressions[i], optimize);
			say_status(name, pcap_compile(p, &program, expressions[i], optimize, 0xffffff), p);
			show(name, &program);
			pcap_freecode(&program);
		}
}

TEST(expressions_for_a_live_handle_make_the_same_programs, "pcap_compile pcap_freecode bpf_image")
{
	pcap_t *p = live();
	compile_all(p);
	pcap_close(p);
}

TEST(expressions_for_a_loopback_make_the_same_programs, "pcap_compile")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_open_live("lo", 96, 0, 10, errors);
	compile_all(p);
	pcap_close(p);
}

TEST(expressions_for_any_make_the_same_programs, "pcap_compile")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_open_live("any", 96, 0, 10, errors);
	compile_all(p);
	pcap_close(p);
}

TEST(the_snapshot_length_is_what_a_program_returns, "pcap_compile")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_open_live(device, 77, 0, 10, errors);
	struct bpf_program program = compiled(p, "udp");
	show("udp", &program);
	pcap_freecode(&program);
	pcap_close(p);
}

TEST(wrong_expressions_say_why, "pcap_compile pcap_geterr")
{
	const char *const wrong[] = {"no such word", "host", "port http-but-wrong", "udp and", "((udp)",
				     "ip[9999999999]", "net 10.0.0.1/8", "vlan 99999", "ether host 1:2", "\"", "\\",
				     "host no-such-host.invalid", "ip broadcast", "udp; tcp", "portrange 20", "wlan type mgt"};
	pcap_t *p = live();
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct bpf_program program = {0};
		say_status(wrong[i], pcap_compile(p, &program, wrong[i], 1, PCAP_NETMASK_UNKNOWN), p);
		pcap_freecode(&program);
	}
	pcap_close(p);
}

TEST(no_expression_takes_all, "pcap_compile")
{
	struct bpf_program program = {0};
	pcap_t *p = live();
	SAY(p, pcap_compile(p, &program, NULL, 1, 0));
	show("null", &program);
	SAY(p, pcap_setfilter(p, &program));
	pcap_freecode(&program);
	pcap_close(p);
}

TEST(compiling_without_a_handle, "pcap_compile_nopcap")
{
	struct bpf_program program = {0};
	say("nopcap: %d", pcap_compile_nopcap(128, DLT_EN10MB, &program, "udp port 53", 1, 0));
	show("nopcap", &program);
	pcap_freecode(&program);
	say("wrong: %d", pcap_compile_nopcap(128, DLT_EN10MB, &program, "no such word", 1, 0));
	say("raw: %d", pcap_compile_nopcap(128, DLT_RAW, &program, "udp", 1, 0));
	show("raw", &program);
	pcap_freecode(&program);
}

TEST(a_program_can_be_freed_twice, "pcap_freecode")
{
	pcap_t *p = live();
	struct bpf_program program = compiled(p, "udp");
	pcap_freecode(&program);
	must(program.bf_len == 0 && program.bf_insns == NULL);
	pcap_freecode(&program);
	pcap_close(p);
}

TEST(a_handle_keeps_its_own_copy_of_a_program, "pcap_setfilter pcap_freecode")
{
	struct seen seen = {0};
	pcap_t *p = live_at_once();
	struct bpf_program program = compiled(p, "udp src port 10001 and dst port 4747");
	must(pcap_setfilter(p, &program) == 0);
	memset(program.bf_insns, 0, program.bf_len * sizeof(*program.bf_insns));
	pcap_freecode(&program);
	send_from(peer, 0, 32);
	read_until(p, &seen, 2);
	must(is_silent(p));
	must(seen.count == 2 && seen.numbers[0] == 1 && seen.numbers[1] == 17);
	pcap_close(p);
}

TEST(what_was_there_before_a_filter_passes_it_as_well, "pcap_setfilter")
{
	struct seen seen = {0};
	pcap_t *p = live_at_once();
	send_from(peer, 0, 64);
	struct bpf_program program = compiled(p, "udp src port 10003 and dst port 4747");
	must(pcap_setfilter(p, &program) == 0);
	pcap_freecode(&program);
	send_from(peer, 64, 16);
	read_until(p, &seen, 5);
	must(is_silent(p));
	must(seen.count == 5 && seen.numbers[0] == 3 && seen.numbers[4] == 67);
	pcap_close(p);
}

TEST(a_filter_is_replaced, "pcap_setfilter")
{
	struct seen seen = {0};
	pcap_t *p = live_at_once();
	const char *none = "udp dst port 1";
	struct bpf_program program = compiled(p, none);
	must(pcap_setfilter(p, &program) == 0);
	pcap_freecode(&program);
	send_from(peer, 0, 8);
	must(is_silent(p));
	only_ours(p);
	send_from(peer, 8, 8);
	read_until(p, &seen, 8);
	must(seen.count == 8 && seen.numbers[0] == 8);
	pcap_close(p);
}

TEST(wrong_programs_are_refused, "pcap_setfilter")
{
	pcap_t *p = live_at_once();
	struct bpf_insn no_end[] = {BPF_STMT(BPF_LD | BPF_IMM, 1)};
	struct bpf_insn far[] = {BPF_JUMP(BPF_JMP | BPF_JA, 1000, 0, 0), BPF_STMT(BPF_RET | BPF_K, 1)};
	struct bpf_insn zero[] = {BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 1)};
	struct bpf_insn unknown[] = {BPF_STMT(0xffff, 0), BPF_STMT(BPF_RET | BPF_K, 1)};
	struct bpf_program programs[] = {
		{1, no_end}, {2, far}, {2, zero}, {2, unknown}, {0, no_end}, {0, NULL},
	};
	for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		char name[32];
		snprintf(name, sizeof(name), "program %u", i);
		say_status(name, pcap_setfilter(p, &programs[i]), p);
	}
	SAY(p, pcap_setfilter(p, NULL));
	/* It still works. */
	struct seen seen = {0};
	only_ours(p);
	send_from(peer, 0, 3);
	read_until(p, &seen, 3);
	must(seen.count == 3);
	pcap_close(p);
}

TEST(a_programs_result_cuts_no_packet, "pcap_setfilter")
{
	/* The handle's snapshot length truncates packets, the program may, too: compare. */
	struct bpf_insn forty[] = {BPF_STMT(BPF_RET | BPF_K, 60)};
	struct bpf_program program = {1, forty};
	struct seen seen = {0};
	pcap_t *p = live_at_once();
	must(pcap_setfilter(p, &program) == 0);
	send_from(peer, 5, 1);
	read_until(p, &seen, 1);
	say("captured: %u", seen.last.caplen);
	say("length: %u", seen.last.len);
	pcap_close(p);
}

static void tagged(uint8_t *frame, uint16_t tag, uint32_t number)
{
	uint8_t plain[FRAME];
	build(plain, sizeof(plain), number);
	memcpy(frame, plain, 12);
	frame[12] = 0x81;
	frame[13] = 0;
	frame[14] = tag >> 8;
	frame[15] = tag;
	memcpy(frame + 16, plain + 12, sizeof(plain) - 12);
}

TEST(filters_of_tagged_frames, "pcap_setfilter pcap_compile")
{
	const char *const filters[] = {
		"udp dst port 4747", "vlan", "vlan 5", "vlan 6", "vlan and udp dst port 4747", "not vlan", "ether[12:2] = 0x8100",
		"ether[12:2] = 0x0800", "len = 104", "len = 100", "udp dst port 4747 or (vlan and udp dst port 4747)",
	};
	for (unsigned i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		uint8_t frame[FRAME + 4];
		struct seen seen = {0};
		pcap_t *p = live_at_once();
		struct bpf_program program = compiled(p, filters[i]);
		must(pcap_setfilter(p, &program) == 0);
		pcap_freecode(&program);
		tagged(frame, 5, 1);
		send_bytes(peer, frame, sizeof(frame));
		tagged(frame, 0x6006, 2);
		send_bytes(peer, frame, sizeof(frame));
		send_from(peer, 3, 1);
		read_all(p, &seen);
		say("%s: %d, first %u, length %u of %u", filters[i], seen.count, seen.numbers[0], seen.last.caplen,
		    seen.last.len);
		pcap_close(p);
	}
}

TEST(programs_of_the_ring_before_a_filter_see_tags, "pcap_setfilter")
{
	/* The library filters these packets instead of the kernel. */
	const char *const filters[] = {"udp dst port 4747", "vlan", "vlan 5", "vlan and udp dst port 4747", "not vlan"};
	for (unsigned i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		uint8_t frame[FRAME + 4];
		struct seen seen = {0};
		pcap_t *p = live_at_once();
		struct bpf_program program = compiled(p, "");
		must(pcap_setfilter(p, &program) == 0);
		pcap_freecode(&program);
		tagged(frame, 5, 1);
		send_bytes(peer, frame, sizeof(frame));
		send_from(peer, 3, 1);
		program = compiled(p, filters[i]);
		must(pcap_setfilter(p, &program) == 0);
		pcap_freecode(&program);
		read_all(p, &seen);
		say("%s: %d, first %u", filters[i], seen.count, seen.numbers[0]);
		pcap_close(p);
	}
}

TEST(running_a_program_on_a_packet, "pcap_offline_filter bpf_filter")
{
	uint8_t frame[FRAME];
	pcap_t *p = live();
	build(frame, sizeof(frame), 7);
	for (unsigned i = 0; i < EXPRESSIONS; i++) {
		struct pcap_pkthdr header = {.caplen = sizeof(frame), .len = sizeof(frame)};
		struct bpf_program program = {0};
		if (pcap_compile(p, &program, expressions[i], 1, 0) != 0)
			continue;
		say("%s: %d", expressions[i], pcap_offline_filter(&program, &header, frame));
		say("bpf %s: %u", expressions[i], bpf_filter(program.bf_insns, frame, sizeof(frame), sizeof(frame)));
		header.caplen = 20;
		say("cut %s: %d", expressions[i], pcap_offline_filter(&program, &header, frame));
		pcap_freecode(&program);
	}
	struct bpf_program none = {0};
	struct pcap_pkthdr header = {.caplen = sizeof(frame), .len = sizeof(frame)};
	say("without a program: %d", pcap_offline_filter(&none, &header, frame));
	say("bpf without a program: %u", bpf_filter(NULL, frame, sizeof(frame), sizeof(frame)));
	pcap_close(p);
}

TEST(checking_a_program, "bpf_validate")
{
	struct bpf_insn good[] = {BPF_STMT(BPF_RET | BPF_K, 1)};
	struct bpf_insn bad[] = {BPF_STMT(BPF_LD | BPF_IMM, 1)};
	struct bpf_insn memory[] = {BPF_STMT(BPF_ST, 16), BPF_STMT(BPF_RET | BPF_K, 1)};
	say("good: %d", bpf_validate(good, 1));
	say("bad: %d", bpf_validate(bad, 1));
	say("memory: %d", bpf_validate(memory, 2));
	say("none: %d", bpf_validate(good, 0));
	say("negative: %d", bpf_validate(good, -1));
}

TEST(printing_a_program, "bpf_dump bpf_image")
{
	pcap_t *p = live();
	struct bpf_program program = compiled(p, "udp dst port 4747");
	for (int option = 0; option < 4; option++) {
		say("option: %d", option);
		bpf_dump(&program, option);
	}
	fflush(stdout);
	struct bpf_insn strange = {0xffff, 1, 2, 3};
	say("strange: %s", bpf_image(&strange, 0));
	pcap_freecode(&program);
	pcap_close(p);
}
