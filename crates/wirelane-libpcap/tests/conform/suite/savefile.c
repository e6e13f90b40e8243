/* Savefiles: writing, reading, and invalid files. */
#define GROUP "savefile"
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_file(const char *name, const void *bytes, size_t length)
{
	FILE *file = fopen(path_of(name), "wb");
	must(file != NULL && fwrite(bytes, 1, length, file) == length);
	fclose(file);
}

static long size_of(const char *name)
{
	FILE *file = fopen(path_of(name), "rb");
	if (!file)
		return -1;
	fseek(file, 0, SEEK_END);
	long size = ftell(file);
	fclose(file);
	return size;
}

static void show_bytes(const char *name)
{
	uint8_t bytes[4096];
	FILE *file = fopen(path_of(name), "rb");
	if (!file) {
		say("%s: not there", name);
		return;
	}
	size_t length = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	char text[2 * 64 + 1];
	for (size_t at = 0; at < length; at += 64) {
		for (size_t i = at; i < length && i < at + 64; i++)
			sprintf(text + 2 * (i - at), "%02x", bytes[i]);
		say("%s %zu: %s", name, at, text);
	}
}

static const struct pcap_pkthdr three[] = {
	{.ts = {1700000000, 1}, .caplen = 60, .len = 60},
	{.ts = {1700000000, 999999}, .caplen = 60, .len = 1500},
	{.ts = {1700000001, 123456}, .caplen = 100, .len = 100},
};

/* Three packets, written through `p`. */
static void dump_three(pcap_t *p, const char *name)
{
	uint8_t frame[FRAME];
	pcap_dumper_t *dumper = pcap_dump_open(p, path_of(name));
	must(dumper != NULL);
	for (int i = 0; i < 3; i++) {
		build(frame, sizeof(frame), i);
		pcap_dump((u_char *)dumper, &three[i], frame);
	}
	must(pcap_dump_flush(dumper) == 0);
	say("position: %ld", pcap_dump_ftell(dumper));
	must(pcap_dump_ftell64(dumper) == pcap_dump_ftell(dumper));
	must(pcap_dump_file(dumper) != NULL);
	pcap_dump_close(dumper);
}

static void make(const char *name)
{
	pcap_t *dead = pcap_open_dead(DLT_EN10MB, 2048);
	dump_three(dead, name);
	pcap_close(dead);
}

static void print(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	say("%s: %ld.%06ld %u of %u, number %ld", (char *)user, (long)header->ts.tv_sec, (long)header->ts.tv_usec,
	    header->caplen, header->len, (long)number_of(bytes, header->caplen));
}

static void describe(pcap_t *p)
{
	SAY(p, pcap_datalink(p));
	SAY(p, pcap_datalink_ext(p));
	SAY(p, pcap_snapshot(p));
	SAY(p, pcap_is_swapped(p));
	SAY(p, pcap_major_version(p));
	SAY(p, pcap_minor_version(p));
	SAY(p, pcap_get_tstamp_precision(p));
	SAY(p, pcap_bufsize(p));
}

TEST(a_file_is_written_and_read,
     "pcap_dump_open pcap_dump pcap_dump_flush pcap_dump_ftell pcap_dump_ftell64 pcap_dump_file pcap_dump_close "
     "pcap_open_offline pcap_loop pcap_major_version pcap_minor_version pcap_is_swapped")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	make("three.pcap");
	show_bytes("three.pcap");
	pcap_t *p = pcap_open_offline(path_of("three.pcap"), errors);
	must(p != NULL);
	describe(p);
	must(pcap_file(p) != NULL);
	must(pcap_fileno(p) == PCAP_ERROR);
	say("selectable: %d", pcap_get_selectable_fd(p) == fileno(pcap_file(p)));
	must(pcap_loop(p, -1, print, (u_char *)"packet") == 0);
	must(pcap_loop(p, -1, print, (u_char *)"after the end") == 0);
	pcap_close(p);
}

TEST(a_live_handle_makes_a_file_of_its_own, "pcap_dump_open pcap_dump")
{
	const int snapshots[] = {96, 65535, 262144};
	for (int i = 0; i < 3; i++)
		for (int nano = 0; nano < 2; nano++) {
			char errors[PCAP_ERRBUF_SIZE] = "", name[32];
			pcap_t *p = pcap_create(device, errors);
			pcap_set_snaplen(p, snapshots[i]);
			pcap_set_tstamp_precision(p, nano);
			must(pcap_activate(p) == 0);
			snprintf(name, sizeof(name), "live-%d-%d.pcap", i, nano);
			dump_three(p, name);
			show_bytes(name);
			pcap_close(p);
		}
}

TEST(captured_packets_are_dumped_as_they_are, "pcap_dump pcap_loop")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = live();
	pcap_dumper_t *dumper = pcap_dump_open(p, path_of("captured.pcap"));
	send_from(peer, 0, 100);
	must(pcap_loop(p, 100, pcap_dump, (u_char *)dumper) == 0);
	pcap_dump_close(dumper);
	pcap_close(p);
	must(size_of("captured.pcap") == 24 + 100 * (16 + FRAME));

	struct seen seen = {0};
	p = pcap_open_offline(path_of("captured.pcap"), errors);
	must(pcap_loop(p, -1, see, (u_char *)&seen) == 0);
	must(seen.count == 100 && seen.numbers[99] == 99);
	pcap_close(p);
}

TEST(a_file_that_is_given_open, "pcap_dump_fopen pcap_fopen_offline pcap_fopen_offline_with_tstamp_precision")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	uint8_t frame[FRAME];
	pcap_t *p = live();
	FILE *file = fopen(path_of("open.pcap"), "w+b");
	pcap_dumper_t *dumper = pcap_dump_fopen(p, file);
	must(dumper != NULL);
	must(pcap_dump_file(dumper) == file);
	build(frame, sizeof(frame), 8);
	pcap_dump((u_char *)dumper, &three[2], frame);
	pcap_dump_close(dumper);
	pcap_close(p);

	file = fopen(path_of("open.pcap"), "rb");
	p = pcap_fopen_offline(file, errors);
	must(p != NULL && pcap_file(p) == file);
	must(pcap_loop(p, -1, print, (u_char *)"packet") == 0);
	pcap_close(p);

	file = fopen(path_of("open.pcap"), "rb");
	p = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, errors);
	must(p != NULL);
	must(pcap_loop(p, -1, print, (u_char *)"nano") == 0);
	pcap_close(p);

	say("null: %d, %s", pcap_fopen_offline(NULL, errors) != NULL, errors);
}

TEST(appending, "pcap_dump_open_append")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	uint8_t frame[FRAME];
	build(frame, sizeof(frame), 9);
	make("append.pcap");
	/* To an existing file, and to a new one. */
	const char *names[] = {"append.pcap", "new.pcap", "new.pcap"};
	for (int i = 0; i < 3; i++) {
		pcap_t *p = live();
		pcap_dumper_t *dumper = pcap_dump_open_append(p, path_of(names[i]));
		say("append %d: %d, %s", i, dumper != NULL, pcap_geterr(p));
		if (dumper) {
			pcap_dump((u_char *)dumper, &three[0], frame);
			pcap_dump_close(dumper);
		}
		say("size %d: %ld", i, size_of(names[i]));
		pcap_close(p);
	}
	/* Files that cannot be appended to. */
	write_file("short.pcap", "\xd4\xc3\xb2\xa1", 4);
	write_file("other.pcap", "this is a text, and it is longer than a header", 46);
	pcap_t *p = pcap_open_dead(DLT_RAW, 2048);
	dump_three(p, "raw.pcap");
	pcap_close(p);
	p = pcap_open_dead(DLT_EN10MB, 96);
	dump_three(p, "snapshot.pcap");
	pcap_close(p);
	p = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 2048, PCAP_TSTAMP_PRECISION_NANO);
	dump_three(p, "nano.pcap");
	pcap_close(p);
	const char *wrong[] = {"short.pcap", "other.pcap", "raw.pcap", "snapshot.pcap", "nano.pcap", "none/file.pcap"};
	p = live();
	for (int i = 0; i < 6; i++) {
		pcap_dumper_t *dumper = pcap_dump_open_append(p, path_of(wrong[i]));
		say("wrong %d: %d, %s", i, dumper != NULL, pcap_geterr(p));
		if (dumper)
			pcap_dump_close(dumper);
	}
	say("null: %d, %s", pcap_dump_open_append(p, NULL) != NULL, pcap_geterr(p));
	pcap_close(p);
	(void)errors;
}

TEST(files_that_cannot_be_opened, "pcap_open_offline pcap_dump_open")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = live();
	say("null: %d, %s", pcap_open_offline(NULL, errors) != NULL, errors);
	say("missing: %d, %s", pcap_open_offline(path_of("no.pcap"), errors) != NULL, errors);
	say("directory: %d, %s", pcap_open_offline(directory, errors) != NULL, errors);
	say("write null: %d, %s", pcap_dump_open(p, NULL) != NULL, pcap_geterr(p));
	say("write missing: %d, %s", pcap_dump_open(p, path_of("none/file.pcap")) != NULL, pcap_geterr(p));
	say("write directory: %d, %s", pcap_dump_open(p, directory) != NULL, pcap_geterr(p));
	pcap_close(p);
}

TEST(what_is_no_savefile, "pcap_open_offline pcap_geterr")
{
	char errors[PCAP_ERRBUF_SIZE];
	const struct {
		const char *bytes;
		size_t length;
	} files[] = {
		{"", 0},
		{"\xd4", 1},
		{"\xd4\xc3\xb2\xa1", 4},
		{"\xd4\xc3\xb2\xa1\x02\x00\x04\x00", 8},
		{"no savefile, but long enough to be one", 38},
		{"\xd4\xc3\xb2\xa1\x03\x00\x04\x00\0\0\0\0\0\0\0\0\0\x08\0\0\x01\0\0\0", 24},
		{"\xd4\xc3\xb2\xa1\x02\x00\x09\x00\0\0\0\0\0\0\0\0\0\x08\0\0\x01\0\0\0", 24},
		{"\x0a\x0d\x0d\x0a", 4},
		{"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0", 28},
		{"\x0a\x0d\x0d\x0a\x1c\0\0\0zzzz\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0", 28},
	};
	for (unsigned i = 0; i < sizeof(files) / sizeof(*files); i++) {
		write_file("wrong", files[i].bytes, files[i].length);
		strcpy(errors, "none");
		pcap_t *p = pcap_open_offline(path_of("wrong"), errors);
		say("file %u: %d, %s", i, p != NULL, errors);
		if (p)
			pcap_close(p);
	}
}

TEST(a_file_that_is_cut_gives_an_error_after_its_packets, "pcap_loop pcap_next_ex pcap_geterr")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	for (int cut = 1; cut <= 120; cut += 17) {
		make("cut.pcap");
		must(truncate(path_of("cut.pcap"), size_of("cut.pcap") - cut) == 0);
		pcap_t *p = pcap_open_offline(path_of("cut.pcap"), errors);
		char name[32];
		snprintf(name, sizeof(name), "cut %d", cut);
		say_status(name, pcap_loop(p, -1, print, (u_char *)name), p);
		pcap_close(p);
	}
}

static void swap_and_show(const char *magic, const char *name)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	uint8_t bytes[24 + 16 + 60] = {0};
	memcpy(bytes, magic, 4);
	/* Version 2.4, 2048 bytes at most, Ethernet; 60 of 80 bytes; in big-endian order. */
	memcpy(bytes + 4, "\x00\x02\x00\x04", 4);
	memcpy(bytes + 16, "\x00\x00\x08\x00\x00\x00\x00\x01", 8);
	memcpy(bytes + 24, "\x65\x53\xf1\x00\x00\x01\xe2\x40\x00\x00\x00\x3c\x00\x00\x00\x50", 16);
	build(bytes + 40, 60, 77);
	write_file(name, bytes, sizeof(bytes));
	for (int precision = 0; precision < 3; precision++) {
		pcap_t *p = pcap_open_offline_with_tstamp_precision(path_of(name), precision, errors);
		say("%s with %d: %d, %s", name, precision, p != NULL, errors);
		if (!p)
			continue;
		describe(p);
		say_status("loop", pcap_loop(p, -1, print, (u_char *)name), p);
		pcap_close(p);
	}
}

TEST(byte_orders_and_precisions, "pcap_open_offline_with_tstamp_precision pcap_is_swapped pcap_get_tstamp_precision")
{
	swap_and_show("\xa1\xb2\xc3\xd4", "swapped");
	swap_and_show("\xa1\xb2\x3c\x4d", "swapped nano");
}

TEST(what_a_savefile_cannot_do,
     "pcap_inject pcap_sendpacket pcap_stats pcap_setdirection pcap_setnonblock pcap_getnonblock pcap_set_datalink "
     "pcap_activate pcap_set_snaplen pcap_can_set_rfmon pcap_list_datalinks")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct pcap_stat stats;
	int *list = NULL;
	make("three.pcap");
	pcap_t *p = pcap_open_offline(path_of("three.pcap"), errors);
	SAY(p, pcap_inject(p, "0123456789abcdef", 16));
	SAY(p, pcap_sendpacket(p, (const u_char *)"0123456789abcdef", 16));
	SAY(p, pcap_stats(p, &stats));
	SAY(p, pcap_setdirection(p, PCAP_D_IN));
	SAY(p, pcap_setnonblock(p, 1, errors));
	say("text: %s", errors);
	SAY(p, pcap_getnonblock(p, errors));
	SAY(p, pcap_set_datalink(p, DLT_EN10MB));
	SAY(p, pcap_set_datalink(p, DLT_RAW));
	SAY(p, pcap_activate(p));
	SAY(p, pcap_set_snaplen(p, 96));
	SAY(p, pcap_set_tstamp_precision(p, 1));
	SAY(p, pcap_can_set_rfmon(p));
	SAY(p, pcap_list_datalinks(p, &list));
	pcap_free_datalinks(list);
	list = NULL;
	SAY(p, pcap_list_tstamp_types(p, &list));
	pcap_free_tstamp_types(list);
	pcap_perror(p, "perror");
	pcap_close(p);
}

TEST(packets_of_a_file_one_by_one, "pcap_next pcap_next_ex pcap_dispatch")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct pcap_pkthdr header, *at;
	const u_char *bytes;
	make("three.pcap");
	pcap_t *p = pcap_open_offline(path_of("three.pcap"), errors);
	bytes = pcap_next(p, &header);
	must(bytes && number_of(bytes, header.caplen) == 0);
	must(pcap_next_ex(p, &at, &bytes) == 1 && number_of(bytes, at->caplen) == 1);
	must(pcap_dispatch(p, 5, print, (u_char *)"dispatch") == 1);
	SAY(p, pcap_next_ex(p, &at, &bytes));
	must(pcap_next_ex(p, &at, &bytes) == PCAP_ERROR_BREAK);
	must(pcap_next(p, &header) == NULL);
	SAY(p, pcap_dispatch(p, -1, print, (u_char *)"end"));
	pcap_close(p);
}

TEST(a_filter_of_a_file, "pcap_setfilter pcap_compile pcap_loop")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	make("three.pcap");
	const char *filters[] = {"udp src port 10001", "len = 1500", "tcp", "", "vlan", "inbound"};
	for (int i = 0; i < 6; i++) {
		pcap_t *p = pcap_open_offline(path_of("three.pcap"), errors);
		struct bpf_program program = {0};
		say_status(filters[i], pcap_compile(p, &program, filters[i], 1, 0), p);
		if (program.bf_len) {
			SAY(p, pcap_setfilter(p, &program));
			SAY(p, pcap_loop(p, 1, print, (u_char *)filters[i]));
			SAY(p, pcap_loop(p, -1, print, (u_char *)filters[i]));
		}
		pcap_freecode(&program);
		pcap_close(p);
	}
}

TEST(a_file_from_standard_input, "pcap_open_offline pcap_dump_open")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	make("three.pcap");
	must(freopen(path_of("three.pcap"), "rb", stdin) != NULL);
	pcap_t *p = pcap_open_offline("-", errors);
	must(p != NULL);
	must(pcap_loop(p, -1, print, (u_char *)"stdin") == 0);
	pcap_close(p);
}
