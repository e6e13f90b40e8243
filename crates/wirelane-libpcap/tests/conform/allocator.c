/*
 * Another malloc, as programs have it that are linked with jemalloc or tcmalloc. It ends the process when it is given back
 * what it did not give.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <stdlib.h>

#define ARENA ((size_t)4 << 30)
#define HEAD 16

static _Atomic(uint8_t *) arena;
static atomic_size_t used;

static uint8_t *start(void)
{
	uint8_t *at = atomic_load(&arena);
	if (at)
		return at;
	at = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *none = NULL;
	if (!atomic_compare_exchange_strong(&arena, &none, at)) {
		munmap(at, ARENA);
		return none;
	}
	return at;
}

/* The size is stored before it. */
static void *take(size_t alignment, size_t size)
{
	uint8_t *base = start();
	size_t total = size + HEAD + alignment;
	size_t at = atomic_fetch_add(&used, (total + 15) & ~(size_t)15);
	if (at + total > ARENA) {
		errno = ENOMEM;
		return NULL;
	}
	uintptr_t place = ((uintptr_t)base + at + HEAD + alignment - 1) & ~(alignment - 1);
	memcpy((void *)(place - sizeof(size)), &size, sizeof(size));
	return (void *)place;
}

static void check(void *memory)
{
	static const char text[] = "memory of another allocator\n";
	uint8_t *at = memory;
	if (at >= start() && at < start() + ARENA)
		return;
	(void)!write(2, text, sizeof(text) - 1);
	abort();
}

void *malloc(size_t size)
{
	return take(16, size);
}

void free(void *memory)
{
	if (memory)
		check(memory);
}

void *calloc(size_t count, size_t size)
{
	/* Fresh pages are zero, and no page is reused. */
	return take(16, count * size);
}

void *realloc(void *memory, size_t size)
{
	size_t old;
	void *other = take(16, size);
	if (!memory || !other)
		return other;
	check(memory);
	memcpy(&old, (uint8_t *)memory - sizeof(old), sizeof(old));
	return memcpy(other, memory, old < size ? old : size);
}

void *memalign(size_t alignment, size_t size)
{
	return take(alignment < 16 ? 16 : alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	*memory = memalign(alignment, size);
	return *memory ? 0 : ENOMEM;
}
