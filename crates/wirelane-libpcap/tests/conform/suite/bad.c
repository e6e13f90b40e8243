/*
 * Calls that programs should not make, each in a child process. A call that kills it over the
 * system's library may kill it over any other. All other calls must have the same answer.
 */
#define GROUP "bad"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The answers of a call in a child, and how the child ended. */
static void attempt(const char *name, void (*call)(void))
{
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		/* Ends a call that hangs. */
		alarm(5);
		call();
		fflush(NULL);
		_exit(is_broken());
	}
	int status = 0;
	waitpid(child, &status, 0);
	must(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		say("%s: never returns", name);
	else if (WIFSIGNALED(status))
		say("%s: dies", name);
	else
		say("%s: returns", name);
}

#define ATTEMPT(call) attempt(#call, call)

static void no_handle_close(void)
{
	pcap_close(NULL);
}

static void no_list(void)
{
	pcap_freealldevs(NULL);
	pcap_free_datalinks(NULL);
	pcap_free_tstamp_types(NULL);
}

static void no_program(void)
{
	struct bpf_program program = {0};
	pcap_freecode(&program);
	pcap_freecode(&program);
}

static void no_error_buffer(void)
{
	/* Without an error, the buffer is not written. */
	pcap_t *p = pcap_create(device, NULL);
	pcap_close(p);
	p = pcap_open_live(device, 96, 0, 10, NULL);
	SAY(p, pcap_setnonblock(p, 1, NULL));
	SAY(p, pcap_getnonblock(p, NULL));
	pcap_close(p);
	pcap_if_t *list = NULL;
	say("list: %d", pcap_findalldevs(&list, NULL));
	pcap_freealldevs(list);
}

static void no_prefix(void)
{
	pcap_t *p = live();
	pcap_perror(p, NULL);
	pcap_close(p);
}

static void no_filter_of_no_handle(void)
{
	struct bpf_program program = {0};
	pcap_setfilter(NULL, &program);
}

static void no_filter(void)
{
	pcap_t *p = live();
	SAY(p, pcap_setfilter(p, NULL));
	pcap_close(p);
}

static void no_names(void)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	bpf_u_int32 net = 0, mask = 0;
	say("net: %d", pcap_lookupnet(NULL, &net, &mask, errors));
	pcap_t *p = pcap_open_live(NULL, 96, 0, 10, errors);
	say("open: %d, %s", p != NULL, errors);
	if (p)
		pcap_close(p);
}

static void no_file_name(void)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = live();
	say("open: %d, %s", pcap_open_offline(NULL, errors) != NULL, errors);
	say("dump: %d, %s", pcap_dump_open(p, NULL) != NULL, pcap_geterr(p));
	say("append: %d, %s", pcap_dump_open_append(p, NULL) != NULL, pcap_geterr(p));
	pcap_close(p);
}

static void no_bytes(void)
{
	pcap_t *p = live();
	SAY(p, pcap_inject(p, NULL, 100));
	SAY(p, pcap_sendpacket(p, NULL, 100));
	pcap_close(p);
}

static void activate_thrice(void)
{
	pcap_t *p = created();
	SAY(p, pcap_activate(p));
	SAY(p, pcap_activate(p));
	SAY(p, pcap_activate(p));
	pcap_close(p);
}

static void wrong_before_activation(void)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = created();
	SAY(p, pcap_dispatch(p, -1, NULL, NULL));
	SAY(p, pcap_loop(p, -1, NULL, NULL));
	SAY(p, pcap_stats(p, NULL));
	SAY(p, pcap_setfilter(p, NULL));
	SAY(p, pcap_inject(p, NULL, 10));
	SAY(p, pcap_getnonblock(p, errors));
	pcap_breakloop(p);
	pcap_close(p);
}

static void closed_descriptor_blocking(void)
{
	pcap_t *p = live();
	struct pcap_pkthdr *at;
	const u_char *bytes;
	close(pcap_fileno(p));
	SAY(p, pcap_next_ex(p, &at, &bytes));
}

static void closed_descriptor_non_blocking(void)
{
	pcap_t *p = live_at_once();
	close(pcap_fileno(p));
	SAY(p, pcap_dispatch(p, -1, see, NULL));
}

static void closed_descriptor_then_closed(void)
{
	pcap_t *p = live();
	close(pcap_fileno(p));
	pcap_close(p);
}

static void replaced_descriptor(void)
{
	/* A program that closes the library's descriptor, and reuses its number. */
	pcap_t *p = live_at_once();
	int fd = pcap_fileno(p);
	close(fd);
	int null = open("/dev/null", O_RDWR);
	if (null != fd)
		must(dup2(null, fd) == fd);
	int status = pcap_dispatch(p, -1, see, NULL);
	must(status <= 0);
	pcap_close(p);
}

static void nothing_to_wait_for(void)
{
	pcap_t *p = live();
	struct pollfd poll_fd = {.fd = pcap_get_selectable_fd(p), .events = POLLIN};
	pcap_close(p);
	poll(&poll_fd, 1, 0);
	say("events: %d", poll_fd.revents);
}

static void sizes_of_nothing(void)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_create(device, errors);
	SAY(p, pcap_set_snaplen(p, 0));
	SAY(p, pcap_set_buffer_size(p, 0));
	SAY(p, pcap_set_buffer_size(p, -5));
	SAY(p, pcap_set_timeout(p, 0));
	SAY(p, pcap_activate(p));
	SAY(p, pcap_snapshot(p));
	errno = 0;
	SAY(p, pcap_inject(p, "", 0));
	errno = 0;
	SAY(p, pcap_sendpacket(p, (const u_char *)"", 0));
	pcap_close(p);
}

static void without_memory(void)
{
	/* A ring for which there is no memory. */
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_create(device, errors);
	pcap_set_buffer_size(p, 2000000000);
	struct rlimit limit = {600 << 20, 600 << 20};
	setrlimit(RLIMIT_AS, &limit);
	say("activated: %d", pcap_activate(p) >= 0);
	pcap_close(p);
}

static void without_descriptors(void)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct rlimit limit = {4, 4};
	pcap_t *p = pcap_create(device, errors);
	setrlimit(RLIMIT_NOFILE, &limit);
	open("/dev/null", O_RDONLY);
	open("/dev/null", O_RDONLY);
	say("status: %d", pcap_activate(p));
	say("text: %d", pcap_geterr(p)[0] != 0);
	pcap_close(p);
}

static jmp_buf back;

static void jump(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	(void)header;
	(void)bytes;
	longjmp(back, 1);
}

static void jump_out_of_a_callback(void)
{
	struct seen seen = {0};
	pcap_t *p = live();
	send_from(peer, 0, 5);
	if (setjmp(back) == 0)
		pcap_loop(p, -1, jump, NULL);
	/* The packet is delivered again, or counts as read. */
	say("loop: %d", pcap_loop(p, 4, see, (u_char *)&seen));
	must(seen.count == 4);
	pcap_close(p);
}

static void on_alarm(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void jump_out_of_a_loop_that_waits(void)
{
	struct seen seen = {0};
	pcap_t *p = live();
	signal(SIGUSR1, on_alarm);
	if (sigsetjmp(back, 1) == 0) {
		if (fork() == 0) {
			usleep(50000);
			kill(getppid(), SIGUSR1);
			_exit(0);
		}
		pcap_loop(p, -1, see, (u_char *)&seen);
	}
	send_from(peer, 0, 5);
	say("loop: %d", pcap_loop(p, 5, see, (u_char *)&seen));
	pcap_close(p);
}

static void breaks_without_end(void)
{
	pcap_t *p = live();
	for (int i = 0; i < 1000000; i++)
		pcap_breakloop(p);
	SAY(p, pcap_loop(p, 1, see, NULL));
	pcap_close(p);
}

static void long_texts(void)
{
	char errors[PCAP_ERRBUF_SIZE + 1], name[5000];
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	errors[PCAP_ERRBUF_SIZE] = 99;
	pcap_t *p = pcap_open_live(name, 96, 0, 10, errors);
	say("open: %d, %zu", p != NULL, strlen(errors));
	p = pcap_open_offline(name, errors);
	say("offline: %d, %zu", p != NULL, strlen(errors));
	must(errors[PCAP_ERRBUF_SIZE] == 99);
	p = live();
	struct bpf_program program = {0};
	SAY(p, pcap_compile(p, &program, name, 1, 0) == 0);
	pcap_close(p);
}

static void strange_names(void)
{
	char label[64], line[64], queue[64];
	snprintf(label, sizeof(label), "%s:1", device);
	snprintf(line, sizeof(line), "%s\n", device);
	snprintf(queue, sizeof(queue), "%s@2", device);
	const char *names[] = {"\xff\xfe", line, "\t", label, queue, "eth0/../lo", "%d", ".", "-"};
	for (unsigned i = 0; i < 9; i++) {
		char errors[PCAP_ERRBUF_SIZE] = "";
		pcap_t *p = pcap_create(names[i], errors);
		if (!p)
			continue;
		say("name %u: %d", i, pcap_activate(p));
		pcap_close(p);
	}
}

TEST(nothing_kills_that_does_not_kill_over_the_systems_library,
     "pcap_close pcap_freealldevs pcap_freecode pcap_perror pcap_setfilter pcap_lookupnet pcap_inject pcap_activate")
{
	ATTEMPT(no_handle_close);
	ATTEMPT(no_list);
	ATTEMPT(no_program);
	ATTEMPT(no_error_buffer);
	ATTEMPT(no_prefix);
	ATTEMPT(no_filter_of_no_handle);
	ATTEMPT(no_filter);
	ATTEMPT(no_names);
	ATTEMPT(no_file_name);
	ATTEMPT(no_bytes);
	ATTEMPT(activate_thrice);
	ATTEMPT(wrong_before_activation);
	ATTEMPT(sizes_of_nothing);
	ATTEMPT(long_texts);
	ATTEMPT(strange_names);
}

TEST(descriptors_that_are_closed, "pcap_fileno pcap_get_selectable_fd pcap_dispatch pcap_next_ex pcap_close")
{
	ATTEMPT(closed_descriptor_blocking);
	ATTEMPT(closed_descriptor_non_blocking);
	ATTEMPT(closed_descriptor_then_closed);
	ATTEMPT(replaced_descriptor);
	ATTEMPT(nothing_to_wait_for);
}

TEST(jumps_out_of_loops, "pcap_loop")
{
	ATTEMPT(jump_out_of_a_callback);
	ATTEMPT(jump_out_of_a_loop_that_waits);
}

TEST(resources_that_are_not_there, "pcap_activate pcap_breakloop")
{
	ATTEMPT(without_memory);
	ATTEMPT(without_descriptors);
	ATTEMPT(breaks_without_end);
}
