// Who holds how much, as a member of /v1/status.
#ifndef VOXELD_SHARES_H
#define VOXELD_SHARES_H

#include "server/pages/view.h"

// Writes the member `clients`. `named`: with the clients' names, which are users and addresses.
void shares_write(const struct view *view, bool named, struct text *out);

#endif
