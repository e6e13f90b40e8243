/*
 * The conformance suite: minimal programs of libpcap. Each test prints the answers that it got,
 * which the driver compares over two libraries, and checks rules of the documentation, which both
 * must keep.
 */
#ifndef SUITE_H
#define SUITE_H

/* Programs still call deprecated functions. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include <pcap/pcap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test {
	const char *group;
	const char *name;
	/* The functions whose rules it tests, separated by blanks. */
	const char *functions;
	void (*run)(void);
	struct test *next;
};

void register_test(struct test *test);

/* A test of the group that the file names in GROUP. */
#define TEST(name, functions)                                                                  \
	static void name(void);                                                                \
	static struct test test_##name = {GROUP, #name, functions, name, NULL};                \
	__attribute__((constructor)) static void register_##name(void)                         \
	{                                                                                      \
		register_test(&test_##name);                                                   \
	}                                                                                      \
	static void name(void)

/* The interface to capture on, the one at the other end of its cable, and a directory to write to. */
extern const char *device, *peer, *directory;
/* An interface that is down, and one that a test may remove. */
extern const char *down, *doomed;

/* An answer to compare: "key: value". Keys are unique within a test. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* An answer with its error text. */
void say_status(const char *key, int status, pcap_t *p);
/* The expression, and its result. */
#define SAY(p, call) say_status(#call, call, p)

/* A rule of the documentation. */
#define must(condition) check(condition, #condition, __FILE__, __LINE__)
void check(bool holds, const char *rule, const char *file, int line);
/* Whether a rule has been broken in this process. */
bool is_broken(void);

/* A handle with a snapshot length of 2048 and a timeout of 10 ms, created, or live. */
pcap_t *created(void);
pcap_t *live(void);
/* The same in immediate and non-blocking mode: a sent packet can be read at once, or was lost. */
pcap_t *live_at_once(void);
/* Sets a filter of `p` for frames of the suite. */
void only_ours(pcap_t *p);

#define FRAME 100
/* A UDP packet over IPv4 of `length` bytes, at least 60, with a number. No host answers it. */
void build(uint8_t *frame, size_t length, uint32_t number);
/* Its number, or -1 for any other frame. */
int64_t number_of(const uint8_t *frame, size_t length);
/* Sends frames of FRAME bytes on an interface, with a separate socket. */
void send_from(const char *interface, uint32_t first, uint32_t count);
/* The same with the caller's frames. */
void send_bytes(const char *interface, const void *bytes, size_t length);

struct seen {
	int count;
	uint32_t numbers[4096];
	struct pcap_pkthdr last;
};
/* A callback that collects frames of the suite into its `struct seen`. */
void see(u_char *seen, const struct pcap_pkthdr *header, const u_char *bytes);
/* Dispatches until `seen` has this number of frames, or no packet arrives for a while. */
void read_until(pcap_t *p, struct seen *seen, int count);
/* Dispatches until no packet arrives for a while. */
void read_all(pcap_t *p, struct seen *seen);
/* Whether no packet arrives any more. */
bool is_silent(pcap_t *p);

/* A path in the directory. */
const char *path_of(const char *name);
/* A program for `p`; the test fails if it does not compile. */
struct bpf_program compiled(pcap_t *p, const char *expression);
/* A monotonic time in milliseconds. */
int64_t now_ms(void);
/* Runs a shell command, which must succeed. */
__attribute__((format(printf, 1, 2))) void shell(const char *format, ...);

#endif
