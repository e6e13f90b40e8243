/* Reading while interfaces appear and disappear. */
#define GROUP "interfaces"
#include "suite.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_loopback_shows_each_packet_once, "pcap_open_live pcap_dispatch")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct seen seen = {0};
	pcap_t *p = pcap_open_live("lo", 2048, 0, 10, errors);
	must(p != NULL);
	only_ours(p);
	must(pcap_setnonblock(p, 1, errors) == 0);
	send_from("lo", 0, 10);
	read_until(p, &seen, 10);
	must(is_silent(p));
	must(seen.count == 10 && seen.numbers[9] == 9);
	pcap_close(p);
}

TEST(an_interface_that_goes_down_and_up, "pcap_dispatch")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct seen seen = {0};
	pcap_t *p = pcap_open_live(doomed, 2048, 0, 10, errors);
	must(p != NULL);
	only_ours(p);
	must(pcap_setnonblock(p, 1, errors) == 0);
	send_from("wldoom1", 0, 3);
	read_until(p, &seen, 3);
	must(seen.count == 3);
	shell("ip link set %s down", doomed);
	/* An error at most once; then reading continues. */
	int failures = 0;
	for (int i = 0; i < 20; i++) {
		failures += pcap_dispatch(p, -1, see, (u_char *)&seen) < 0;
		usleep(2000);
	}
	say("failures: %d", failures);
	say("text: %s", pcap_geterr(p));
	shell("ip link set %s up", doomed);
	for (int i = 0; i < 20; i++) {
		pcap_dispatch(p, -1, see, (u_char *)&seen);
		usleep(2000);
	}
	send_from("wldoom1", 10, 3);
	read_until(p, &seen, 6);
	must(seen.count == 6 && seen.numbers[5] == 12);
	pcap_close(p);
}

TEST(an_interface_that_disappears, "pcap_dispatch pcap_geterr")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	struct seen seen = {0};
	pcap_t *p = pcap_open_live(doomed, 2048, 0, 10, errors);
	must(p != NULL);
	only_ours(p);
	send_from("wldoom1", 0, 3);
	must(pcap_loop(p, 3, see, (u_char *)&seen) == 0);
	shell("ip link del %s", doomed);
	/* A blocking call returns. */
	int status = 0;
	for (int i = 0; i < 1000 && status == 0; i++)
		status = pcap_dispatch(p, -1, see, (u_char *)&seen);
	say_status("dispatch", status, p);
	SAY(p, pcap_inject(p, "0123456789abcdef", 16));
	struct pcap_stat stats;
	SAY(p, pcap_stats(p, &stats));
	pcap_close(p);
	shell("ip link add %s type veth peer name wldoom1", doomed);
	shell("ip link set %s up && ip link set wldoom1 up", doomed);
}

TEST(a_loop_that_waits_ends_when_its_interface_disappears, "pcap_loop pcap_geterr")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_open_live(doomed, 2048, 0, 10, errors);
	must(p != NULL);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		usleep(100000);
		shell("ip link del %s", doomed);
		_exit(0);
	}
	struct seen seen = {0};
	int64_t start = now_ms();
	say_status("loop", pcap_loop(p, -1, see, (u_char *)&seen), p);
	must(now_ms() - start < 30000);
	waitpid(child, NULL, 0);
	pcap_close(p);
	shell("ip link add %s type veth peer name wldoom1", doomed);
	shell("ip link set %s up && ip link set wldoom1 up", doomed);
}
