/* Prints the files that serve as libpcap in this process: one line each. */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int show(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	char path[4096];
	if (strstr(info->dlpi_name, "libpcap.") || strstr(info->dlpi_name, "wirelane_libpcap"))
		puts(realpath(info->dlpi_name, path) ? path : info->dlpi_name);
	return 0;
}

int main(void)
{
	dl_iterate_phdr(show, NULL);
	return 0;
}
