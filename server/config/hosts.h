// Host, Origin and Sec-Fetch-Site, by which a browser names the web page that sends a request; and option
// allowed_hosts.
//
// A web page may make its own host name lead to this machine (DNS rebinding). The browser then lets the page read the
// answers, and Host has the page's host name. A page of another origin may also send requests, without reading the
// answers. The browser then sends Origin or Sec-Fetch-Site, which a page cannot set. Any thread.
#ifndef VOXELD_HOSTS_H
#define VOXELD_HOSTS_H

#include <stdbool.h>

#include "kernels/kernels.h"

// Whether the text is a value of the option: "", or names without port, separated by commas.
VX_WARN_UNUSED bool hosts_are_sound(const char *list);

// True if no page of another site can have this Host: empty, an IP address, localhost, a name that ends in .localhost,
// or the machine's own name. A port may follow.
bool host_is_own(const char *host);

// Whether Origin or Sec-Fetch-Site (NULL: no such header) show that a page of another origin asks. An Origin with the
// Host's name and port is not foreign, with either scheme, since a proxy may end TLS.
bool page_is_foreign(const char *origin, const char *site, const char *host);

// Whether the name in a Host header is in the option's list. Ignores case.
bool hosts_have(const char *list, const char *host);

#endif
