/* pcap_breakloop() from callbacks, signal handlers and threads. */
#define GROUP "breaks"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_break_before_a_loop_ends_it_once, "pcap_breakloop pcap_loop")
{
	struct seen seen = {0};
	pcap_t *p = live();
	pcap_breakloop(p);
	must(pcap_loop(p, -1, see, (u_char *)&seen) == PCAP_ERROR_BREAK);
	must(seen.count == 0);
	/* The flag is cleared. */
	send_from(peer, 0, 3);
	must(pcap_loop(p, 3, see, (u_char *)&seen) == 0);
	pcap_breakloop(p);
	pcap_breakloop(p);
	send_from(peer, 3, 3);
	must(pcap_dispatch(p, -1, see, (u_char *)&seen) == PCAP_ERROR_BREAK);
	must(seen.count == 3);
	must(pcap_loop(p, 3, see, (u_char *)&seen) == 0);
	must(seen.count == 6);
	pcap_close(p);
}

TEST(a_break_before_the_next_packet, "pcap_breakloop pcap_next pcap_next_ex")
{
	struct pcap_pkthdr header, *at;
	const u_char *bytes;
	pcap_t *p = live();
	pcap_breakloop(p);
	must(pcap_next_ex(p, &at, &bytes) == PCAP_ERROR_BREAK);
	pcap_breakloop(p);
	must(pcap_next(p, &header) == NULL);
	send_from(peer, 0, 1);
	must(pcap_next(p, &header) != NULL);
	pcap_close(p);
}

struct stopper {
	pcap_t *p;
	struct seen seen;
	int after;
};

static void stop_after(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct stopper *stopper = (struct stopper *)user;
	see((u_char *)&stopper->seen, header, bytes);
	if (stopper->seen.count == stopper->after)
		pcap_breakloop(stopper->p);
}

TEST(a_break_in_a_callback_ends_after_this_packet, "pcap_breakloop pcap_loop pcap_dispatch")
{
	struct stopper stopper = {.p = live(), .after = 4};
	send_from(peer, 0, 10);
	must(pcap_loop(stopper.p, -1, stop_after, (u_char *)&stopper) == PCAP_ERROR_BREAK);
	must(stopper.seen.count == 4);
	/* The remaining packets are not lost. */
	must(pcap_loop(stopper.p, 6, stop_after, (u_char *)&stopper) == 0);
	must(stopper.seen.count == 10 && stopper.seen.numbers[9] == 9);
	pcap_close(stopper.p);
}

TEST(a_break_with_the_last_packet_of_a_count, "pcap_breakloop pcap_loop")
{
	struct stopper stopper = {.p = live(), .after = 5};
	send_from(peer, 0, 10);
	/* Both end the loop at once. The status depends on the library and on timing. */
	int status = pcap_loop(stopper.p, 5, stop_after, (u_char *)&stopper);
	must(status == PCAP_ERROR_BREAK || status == 0);
	must(stopper.seen.count == 5);
	say("status: %d", status);
	pcap_close(stopper.p);
}

TEST(a_break_in_non_blocking_mode, "pcap_breakloop pcap_dispatch")
{
	struct stopper stopper = {.p = live_at_once(), .after = 4};
	send_from(peer, 0, 10);
	usleep(50000);
	must(pcap_dispatch(stopper.p, -1, stop_after, (u_char *)&stopper) == PCAP_ERROR_BREAK);
	must(stopper.seen.count == 4);
	read_until(stopper.p, &stopper.seen, 10);
	must(stopper.seen.count == 10);
	pcap_close(stopper.p);
}

static pcap_t *to_break;

static void *break_soon(void *ms)
{
	usleep(1000 * *(int *)ms);
	pcap_breakloop(to_break);
	return NULL;
}

TEST(a_thread_breaks_a_loop_that_waits, "pcap_breakloop pcap_loop pcap_dispatch pcap_next_ex")
{
	for (int kind = 0; kind < 3; kind++)
		for (int timeout = 0; timeout <= 1000; timeout += 500) {
			pthread_t thread;
			struct seen seen = {0};
			struct pcap_pkthdr *at;
			const u_char *bytes;
			int ms = 50, status = 0;
			to_break = created();
			pcap_set_timeout(to_break, timeout);
			must(pcap_activate(to_break) == 0);
			only_ours(to_break);
			int64_t start = now_ms();
			pthread_create(&thread, NULL, break_soon, &ms);
			/* In the last two kinds, a timeout may return before the break. */
			while (status == 0)
				status = kind == 0   ? pcap_loop(to_break, -1, see, (u_char *)&seen)
					 : kind == 1 ? pcap_dispatch(to_break, -1, see, (u_char *)&seen)
						     : pcap_next_ex(to_break, &at, &bytes);
			must(status == PCAP_ERROR_BREAK);
			must(now_ms() - start < 10000);
			pthread_join(thread, NULL);
			pcap_close(to_break);
		}
}

TEST(a_thread_breaks_a_loop_with_packets, "pcap_breakloop pcap_loop")
{
	pthread_t thread;
	struct seen seen = {0};
	int ms = 20;
	to_break = live();
	pthread_create(&thread, NULL, break_soon, &ms);
	send_from(peer, 0, 1000);
	must(pcap_loop(to_break, -1, see, (u_char *)&seen) == PCAP_ERROR_BREAK);
	pthread_join(thread, NULL);
	pcap_close(to_break);
}

static void on_signal(int number)
{
	(void)number;
	pcap_breakloop(to_break);
}

static void no_action(int number)
{
	(void)number;
}

TEST(a_signal_handler_breaks_a_loop, "pcap_breakloop pcap_loop")
{
	for (int flags = 0; flags <= 1; flags++) {
		struct seen seen = {0};
		/* With and without restarting system calls. */
		struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags ? SA_RESTART : 0};
		sigaction(SIGUSR1, &action, NULL);
		to_break = live();
		pid_t child = fork();
		if (child == 0) {
			for (int i = 0; i < 200; i++) {
				usleep(20000);
				if (i < 3)
					kill(getppid(), SIGUSR2);
				else if (i == 3)
					kill(getppid(), SIGUSR1);
			}
			_exit(0);
		}
		struct sigaction other = {.sa_handler = no_action, .sa_flags = flags ? SA_RESTART : 0};
		sigaction(SIGUSR2, &other, NULL);
		must(pcap_loop(to_break, -1, see, (u_char *)&seen) == PCAP_ERROR_BREAK);
		must(seen.count == 0);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		pcap_close(to_break);
	}
}

TEST(other_signals_end_no_loop, "pcap_loop")
{
	struct seen seen = {0};
	struct sigaction action = {.sa_handler = no_action};
	sigaction(SIGUSR2, &action, NULL);
	pcap_t *p = live();
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 10; i++) {
			usleep(5000);
			kill(getppid(), SIGUSR2);
		}
		send_from(peer, 0, 2);
		_exit(0);
	}
	must(pcap_loop(p, 2, see, (u_char *)&seen) == 0);
	must(seen.count == 2);
	int status;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	pcap_close(p);
}

TEST(a_break_of_a_savefile, "pcap_breakloop pcap_loop")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	uint8_t frame[FRAME];
	struct pcap_pkthdr header = {.caplen = FRAME, .len = FRAME};
	pcap_t *dead = pcap_open_dead(DLT_EN10MB, 2048);
	pcap_dumper_t *dumper = pcap_dump_open(dead, path_of("broken.pcap"));
	for (int i = 0; i < 10; i++) {
		build(frame, sizeof(frame), i);
		pcap_dump((u_char *)dumper, &header, frame);
	}
	pcap_dump_close(dumper);
	pcap_close(dead);

	struct stopper stopper = {.p = pcap_open_offline(path_of("broken.pcap"), errors), .after = 3};
	must(pcap_loop(stopper.p, -1, stop_after, (u_char *)&stopper) == PCAP_ERROR_BREAK);
	must(stopper.seen.count == 3);
	must(pcap_loop(stopper.p, -1, stop_after, (u_char *)&stopper) == 0);
	must(stopper.seen.count == 10);
	pcap_close(stopper.p);
}

TEST(a_child_that_ends_leaves_its_parents_handle_alone, "pcap_close pcap_loop")
{
	for (int way = 0; way < 3; way++) {
		struct seen seen = {0};
		pcap_t *p = live();
		fflush(NULL);
		pid_t child = fork();
		if (child == 0) {
			if (way == 1)
				pcap_close(p);
			if (way == 2)
				pcap_breakloop(p);
			_exit(0);
		}
		int status = -1;
		waitpid(child, &status, 0);
		must(status == 0);
		send_from(peer, 0, 5);
		if (way < 2) {
			must(pcap_loop(p, 5, see, (u_char *)&seen) == 0);
			must(seen.count == 5);
		}
		pcap_close(p);
	}
}

TEST(a_child_reads_what_its_parent_opened, "pcap_loop pcap_stats")
{
	struct seen seen = {0};
	pcap_t *p = live();
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		send_from(peer, 0, 5);
		int status = pcap_loop(p, 5, see, (u_char *)&seen);
		struct pcap_stat stats;
		_exit(status == 0 && seen.count == 5 && pcap_stats(p, &stats) == 0 ? 0 : 1);
	}
	int status = -1;
	waitpid(child, &status, 0);
	must(status == 0);
	pcap_close(p);
}
