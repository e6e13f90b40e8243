/* Functions that the tests share. */
#include "suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const char *device, *peer, *directory, *down, *doomed;

static struct test *tests;
static bool broken;

void register_test(struct test *test)
{
	test->next = tests;
	tests = test;
}

void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	/* Output is flushed, so that it is available even if a test crashes. */
	fflush(stdout);
}

void say_status(const char *key, int status, pcap_t *p)
{
	if (status < 0 && p)
		say("%s: %d, %s", key, status, pcap_geterr(p));
	else
		say("%s: %d", key, status);
}

void check(bool holds, const char *rule, const char *file, int line)
{
	if (holds)
		return;
	broken = true;
	fprintf(stderr, "%s:%d: broken rule: %s\n", file, line, rule);
}

bool is_broken(void)
{
	return broken;
}

static void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

pcap_t *created(void)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_create(device, errors);
	if (!p) {
		fprintf(stderr, "pcap_create: %s\n", errors);
		exit(2);
	}
	pcap_set_snaplen(p, 2048);
	pcap_set_timeout(p, 10);
	return p;
}

static pcap_t *activated(pcap_t *p)
{
	int status = pcap_activate(p);
	if (status != 0) {
		fprintf(stderr, "pcap_activate: %d, %s\n", status, pcap_geterr(p));
		exit(2);
	}
	only_ours(p);
	return p;
}

pcap_t *live(void)
{
	return activated(created());
}

pcap_t *live_at_once(void)
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = created();
	pcap_set_immediate_mode(p, 1);
	activated(p);
	if (pcap_setnonblock(p, 1, errors) != 0) {
		fprintf(stderr, "pcap_setnonblock: %s\n", errors);
		exit(2);
	}
	return p;
}

/* The UDP port of all frames of the suite. */
#define PORT 4747

void only_ours(pcap_t *p)
{
	struct bpf_program program = compiled(p, "udp dst port 4747");
	if (pcap_setfilter(p, &program) != 0) {
		fprintf(stderr, "pcap_setfilter: %s\n", pcap_geterr(p));
		exit(2);
	}
	pcap_freecode(&program);
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = value >> 8;
	at[1] = value;
}

void build(uint8_t *frame, size_t length, uint32_t number)
{
	memset(frame, 0, length);
	/* To a group address, which every interface accepts, from a locally administered one. */
	memcpy(frame, "\x01\x00\x5e\x7f\x00\x01\x02\x57\x4c\x00\x00\x01", 12);
	put16(frame + 12, ETHERTYPE_IP);
	uint8_t *ip = frame + 14;
	ip[0] = 0x45;
	put16(ip + 2, length - 14);
	ip[8] = 1;
	ip[9] = IPPROTO_UDP;
	/* Flows differ in the source port, so that a card spreads them over its queues. */
	memcpy(ip + 12, "\xc6\x33\x64\x01\xef\xff\x00\x01", 8);
	uint32_t sum = 0;
	for (int i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, ~sum);
	uint8_t *udp = ip + 20;
	put16(udp, 10000 + number % 16);
	put16(udp + 2, PORT);
	put16(udp + 4, length - 34);
	memcpy(udp + 8, &number, sizeof(number));
}

int64_t number_of(const uint8_t *frame, size_t length)
{
	uint32_t number;
	/* Also after a VLAN tag. */
	size_t tag = length > 16 && frame[12] == 0x81 && frame[13] == 0 ? 4 : 0;
	if (length < 46 + tag || frame[12 + tag] != 8 || frame[13 + tag] != 0)
		return -1;
	const uint8_t *udp = frame + 34 + tag;
	if (udp[-11] != IPPROTO_UDP || (udp[2] << 8 | udp[3]) != PORT)
		return -1;
	memcpy(&number, udp + 8, sizeof(number));
	return number;
}

static int socket_on(const char *interface)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = if_nametoindex(interface),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		give_up(interface);
	return fd;
}

void send_from(const char *interface, uint32_t first, uint32_t count)
{
	uint8_t frame[FRAME];
	int fd = socket_on(interface);
	for (uint32_t i = 0; i < count; i++) {
		build(frame, sizeof(frame), first + i);
		if (send(fd, frame, sizeof(frame), 0) != sizeof(frame))
			give_up("send");
	}
	close(fd);
}

void send_bytes(const char *interface, const void *bytes, size_t length)
{
	int fd = socket_on(interface);
	if (send(fd, bytes, length, 0) != (ssize_t)length)
		give_up("send");
	close(fd);
}

void see(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct seen *seen = (struct seen *)user;
	int64_t number = number_of(bytes, header->caplen);
	if (number < 0)
		return;
	if (seen->count < 4096)
		seen->numbers[seen->count] = number;
	seen->last = *header;
	seen->count++;
}

void read_until(pcap_t *p, struct seen *seen, int count)
{
	/* Under valgrind and on a busy machine, everything is slow. */
	int64_t end = now_ms() + 30000;
	while (seen->count < count && now_ms() < end) {
		struct pollfd poll_fd = {.fd = pcap_get_selectable_fd(p), .events = POLLIN};
		poll(&poll_fd, 1, 20);
		if (poll_fd.revents && pcap_dispatch(p, -1, see, (u_char *)seen) < 0)
			break;
	}
}

void read_all(pcap_t *p, struct seen *seen)
{
	struct pollfd poll_fd = {.fd = pcap_get_selectable_fd(p), .events = POLLIN};
	int64_t end = now_ms() + 5000;
	while (poll(&poll_fd, 1, 100) > 0 && now_ms() < end)
		if (pcap_dispatch(p, -1, see, (u_char *)seen) < 0)
			break;
}

bool is_silent(pcap_t *p)
{
	struct seen seen = {0};
	read_all(p, &seen);
	return seen.count == 0;
}

const char *path_of(const char *name)
{
	static char paths[8][4096];
	static unsigned next;
	char *path = paths[next++ % 8];
	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	return path;
}

struct bpf_program compiled(pcap_t *p, const char *expression)
{
	struct bpf_program program = {0};
	if (pcap_compile(p, &program, expression, 1, PCAP_NETMASK_UNKNOWN) != 0) {
		fprintf(stderr, "%s: %s\n", expression, pcap_geterr(p));
		exit(2);
	}
	return program;
}

int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void shell(const char *format, ...)
{
	char command[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command) != 0) {
		fprintf(stderr, "%s failed\n", command);
		exit(2);
	}
}

/* Ends tests that hang. */
static unsigned limit_s(void)
{
	const char *limit = getenv("SUITE_LIMIT_S");
	return limit ? atoi(limit) : 60;
}

static int list(void)
{
	for (struct test *test = tests; test; test = test->next)
		printf("%s %s %s\n", test->group, test->name, test->functions);
	return 0;
}

/* suite list | suite GROUP NAME|all DEVICE PEER DIRECTORY [DOWN DOOMED] */
int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	if (argc < 6)
		return 2;
	/* Shell commands must not use the library under test. */
	unsetenv("LD_PRELOAD");
	const char *group = argv[1], *name = argv[2];
	device = argv[3];
	peer = argv[4];
	directory = argv[5];
	down = argc > 6 ? argv[6] : "";
	doomed = argc > 7 ? argv[7] : "";
	int found = 0;
	for (struct test *test = tests; test; test = test->next) {
		if (strcmp(group, test->group) != 0)
			continue;
		if (strcmp(name, "all") != 0 && strcmp(name, test->name) != 0)
			continue;
		alarm(limit_s());
		test->run();
		found++;
	}
	return found == 0 ? 2 : broken;
}
