/* The properties of a live handle. */
#define GROUP "info"
#include "suite.h"

#include <stdio.h>
#include <string.h>

static void links(const char *name, pcap_t *p)
{
	int *list = NULL;
	int count = pcap_list_datalinks(p, &list);
	say("%s: %d", name, count);
	for (int i = 0; i < count; i++)
		say("%s %d: %d", name, i, list[i]);
	pcap_free_datalinks(list);
}

TEST(link_types, "pcap_datalink pcap_datalink_ext pcap_list_datalinks pcap_free_datalinks")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = live();
	must(pcap_datalink(p) == DLT_EN10MB);
	SAY(p, pcap_datalink_ext(p));
	links("created", p);
	pcap_close(p);

	p = pcap_open_live(device, 96, 0, 10, errors);
	links("opened", p);
	pcap_close(p);

	p = pcap_open_live("lo", 96, 0, 10, errors);
	SAY(p, pcap_datalink(p));
	links("loopback", p);
	pcap_close(p);

	p = pcap_open_live("any", 96, 0, 10, errors);
	say("datalink of any: %d", pcap_datalink(p));
	links("any", p);
	pcap_close(p);
	pcap_free_datalinks(NULL);
}

TEST(choosing_a_link_type, "pcap_set_datalink")
{
	pcap_t *p = live();
	SAY(p, pcap_set_datalink(p, DLT_EN10MB));
	SAY(p, pcap_set_datalink(p, DLT_LINUX_SLL));
	SAY(p, pcap_set_datalink(p, DLT_RAW));
	SAY(p, pcap_set_datalink(p, -1));
	SAY(p, pcap_set_datalink(p, 12345));
	SAY(p, pcap_datalink(p));
	SAY(p, pcap_set_datalink(p, DLT_DOCSIS));
	say("then: %d", pcap_datalink(p));
	pcap_close(p);
}

TEST(time_stamps_to_choose_from, "pcap_list_tstamp_types pcap_free_tstamp_types pcap_set_tstamp_type")
{
	const char *names[] = {device, "lo", "any", "no-such-if"};
	for (unsigned i = 0; i < 4; i++) {
		char errors[PCAP_ERRBUF_SIZE] = "";
		int *list = NULL;
		pcap_t *p = pcap_create(names[i], errors);
		int count = pcap_list_tstamp_types(p, &list);
		say("types %u: %d", i, count);
		for (int j = 0; j < count; j++) {
			say("type %u %d: %d", i, j, list[j]);
			must(pcap_set_tstamp_type(p, list[j]) == 0);
		}
		pcap_free_tstamp_types(list);
		pcap_close(p);
	}
	pcap_free_tstamp_types(NULL);

	pcap_t *p = live();
	int *list = NULL;
	say("when live: %d", pcap_list_tstamp_types(p, &list));
	pcap_free_tstamp_types(list);
	pcap_close(p);
}

TEST(every_type_of_time_stamps_that_is_listed_works, "pcap_set_tstamp_type pcap_activate")
{
	int *list = NULL;
	pcap_t *p = created();
	int count = pcap_list_tstamp_types(p, &list);
	pcap_close(p);
	for (int i = 0; i < count; i++) {
		p = created();
		must(pcap_set_tstamp_type(p, list[i]) == 0);
		say("activate with %d: %d", list[i], pcap_activate(p));
		pcap_close(p);
	}
	pcap_free_tstamp_types(list);
}

TEST(a_live_handle_has_no_file, "pcap_file pcap_is_swapped pcap_major_version pcap_minor_version")
{
	pcap_t *p = live();
	must(pcap_file(p) == NULL);
	must(pcap_is_swapped(p) == 0);
	SAY(p, pcap_major_version(p));
	SAY(p, pcap_minor_version(p));
	must(pcap_bufsize(p) > 0);
	pcap_close(p);
}

TEST(descriptors, "pcap_fileno pcap_get_selectable_fd pcap_get_required_select_timeout")
{
	pcap_t *p = live();
	must(pcap_fileno(p) >= 0);
	must(pcap_get_selectable_fd(p) >= 0);
	say("same: %d", pcap_fileno(p) == pcap_get_selectable_fd(p));
	say("timeout: %d", pcap_get_required_select_timeout(p) != NULL);
	pcap_close(p);
}

TEST(errors_are_printed_with_a_prefix, "pcap_perror pcap_geterr")
{
	pcap_t *p = live();
	say("no error yet: %zu", strlen(pcap_geterr(p)));
	pcap_set_snaplen(p, 1);
	say("text: %s", pcap_geterr(p));
	/* A program may write there. */
	strcpy(pcap_geterr(p), "written by the program");
	say("own text: %s", pcap_geterr(p));
	fflush(stdout);
	if (!freopen(path_of("stderr"), "w+", stderr))
		must(!"freopen");
	pcap_perror(p, "prefix");
	pcap_perror(p, "");
	fflush(stderr);
	rewind(stderr);
	char line[512];
	for (int i = 0; fgets(line, sizeof(line), stderr); i++)
		say("line %d: %s", i, line);
	pcap_close(p);
}
