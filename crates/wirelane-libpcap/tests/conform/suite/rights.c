/* Without privileges. A process cannot regain dropped privileges, so this is a separate group. */
#define GROUP "rights"
#include "suite.h"

#include <unistd.h>

TEST(without_rights_it_is_denied, "pcap_activate pcap_open_live")
{
	char errors[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = created();
	pcap_set_promisc(p, 0);
	if (setuid(65534) != 0)
		must(!"setuid");
	SAY(p, pcap_activate(p));
	say("geterr: %s", pcap_geterr(p));
	pcap_close(p);
	must(pcap_open_live(device, 96, 0, 10, errors) == NULL);
	say("open_live: %s", errors);
}
