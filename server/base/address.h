// Who is at the other end of a connection, as text: an IP address, or unix:UID.
#ifndef VOXELD_ADDRESS_H
#define VOXELD_ADDRESS_H

enum { ADDRESS_SIZE = 64 };  // its NUL included

#endif
