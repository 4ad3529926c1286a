// The headers by which a browser shows the web page that asks: Host, Origin and Sec-Fetch-Site; and option
// allowed_hosts.
//
// A web page may make its own host name lead to this machine (DNS rebinding). A browser then sends the page's requests
// here, and lets the page read the answers. Only the Host header shows it. A page of any other origin may send requests
// too, whose answers it cannot read. Then Origin or Sec-Fetch-Site show it: a page can set neither. Pure functions; any
// thread.
#ifndef VOXELD_HOSTS_H
#define VOXELD_HOSTS_H

#include <stdbool.h>

#include "kernels/kernels.h"

// Whether the text is a value of the option: "", or names without port, separated by commas.
VX_WARN_UNUSED bool hosts_are_sound(const char *list);

// Whether a Host header is one that no strange page can have: it is empty, an IP address, localhost, a name that ends
// in .localhost, or the machine's own name. A port may follow.
bool host_is_own(const char *host);

// Whether Origin or Sec-Fetch-Site show that a page of another origin asks. NULL: there is no such header, as without a
// browser. An Origin is the Host's own if nothing but its scheme stands before the Host: a proxy may end TLS.
bool page_is_foreign(const char *origin, const char *site, const char *host);

// Whether the name in a Host header is in the option's list. Case does not matter.
bool hosts_have(const char *list, const char *host);

#endif
