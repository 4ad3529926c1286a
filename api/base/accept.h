// The headers Accept and Accept-Encoding: which media types and codings a client prefers (RFC 9110, sections 12.4.2,
// 12.5.1 and 12.5.3). Any thread.
#ifndef VOXELD_ACCEPT_H
#define VOXELD_ACCEPT_H

enum { ACCEPT_MOST = 1000 };  // the highest quality

// The quality that `accept` gives to `type` ("application/json"), in thousandths. The most precise range that covers
// the type decides; 0 if no range does. Parameters other than q are ignored. A malformed range covers nothing.
int accept_quality(const char *accept, const char *type);

// The quality that an Accept-Encoding gives to `coding` ("gzip"), in thousandths; 0 if no range covers it. An uncoded
// body ("identity") may be sent even at the quality 0.
int accept_coding(const char *accept, const char *coding);

#endif
