// The Accept header: how much a client wants a media type (RFC 9110, sections 12.4.2 and 12.5.1). Any thread.
#ifndef VOXELD_ACCEPT_H
#define VOXELD_ACCEPT_H

enum { ACCEPT_MOST = 1000 };  // the highest quality

// The quality that `accept` gives to `type` ("application/json"), in thousandths. The most precise range that covers
// the type decides; the quality is 0 if no range does. Parameters other than q are ignored. A malformed range covers
// nothing.
int accept_quality(const char *accept, const char *type);

#endif
