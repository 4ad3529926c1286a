// The Accept header: how much a client wants a media type (RFC 9110, sections 12.4.2 and 12.5.1). Any thread.
#ifndef VOXELD_ACCEPT_H
#define VOXELD_ACCEPT_H

// The quality that `accept` gives to `type` ("application/json"), in thousandths: that of the most precise range that
// covers it, 0 where none does or it says q=0. Parameters other than q are overlooked. What is malformed covers
// nothing.
int accept_quality(const char *accept, const char *type);

#endif
