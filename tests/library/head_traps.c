// Traps in what a client sends: framing, first lines, headers, arguments. One thread.
#include <string.h>

#include "tests/library/stage.h"

// ---- what may be seen -----------------------------------------------------------------------------------------------

static bool taken(const struct stage *stage) { return stage_status(stage) == 200; }
static bool taken_4(const struct stage *stage) { return taken(stage) && stage->body == 4; }
static bool taken_5(const struct stage *stage) { return taken(stage) && stage->body == 5; }
static bool taken_2(const struct stage *stage) { return taken(stage) && stage->body == 2; }
static bool taken_empty(const struct stage *stage) { return taken(stage) && stage->body == 0; }
static bool taken_2_and_kept(const struct stage *stage) { return taken_2(stage) && !stage->ended; }
static bool twice(const struct stage *stage) { return stage->answers > 1; }
static bool unanswered(const struct stage *stage) { return stage->answers == 0; }
static bool silent(const struct stage *stage) { return stage->answers == 0 && !stage->ended; }
static bool value_cut(const struct stage *stage) { return taken(stage) && stage->value_size == 1; }
static bool value_whole(const struct stage *stage) { return taken(stage) && stage->value_size == 3; }
static bool folded_into_name(const struct stage *stage) { return taken(stage) && strcmp(stage->name, "X2") == 0; }
static bool target_cut(const struct stage *stage) { return taken(stage) && strcmp(stage->target, "/a") == 0; }
static bool target_absolute(const struct stage *stage) {
  return taken(stage) && strcmp(stage->path, "http://x/a") == 0;
}
static bool path_decoded(const struct stage *stage) { return taken(stage) && strcmp(stage->path, "/a/b") == 0; }
static bool path_cut(const struct stage *stage) { return taken(stage) && strcmp(stage->path, "/a") == 0; }
static bool percent_kept(const struct stage *stage) { return taken(stage) && strcmp(stage->path, "/a%zz%") == 0; }
static bool plus_is_blank(const struct stage *stage) { return taken(stage) && strcmp(stage->value, "1 2") == 0; }
static bool value_missing(const struct stage *stage) { return taken(stage) && stage->value_missing; }
static bool any_method(const struct stage *stage) { return taken(stage) && strcmp(stage->method, "get") == 0; }
static bool target_missing(const struct stage *stage) { return stage->target_missing; }
static bool handled(const struct stage *stage) { return stage_called(stage, 'h'); }
static bool two(const struct stage *stage) { return stage->answers == 2 && stage_called(stage, 'h'); }
static bool three(const struct stage *stage) { return stage->answers == 3; }
static bool status_400(const struct stage *stage) { return stage_status(stage) == 400; }
static bool status_413(const struct stage *stage) { return stage_status(stage) == 413; }
static bool status_505(const struct stage *stage) { return stage_status(stage) == 505; }

// ---- what is sent ---------------------------------------------------------------------------------------------------

#define SENT(TEXT) (TEXT), sizeof(TEXT) - 1
#define GET "GET /a HTTP/1.1\r\n"
#define POST "POST /a HTTP/1.1\r\nHost: x\r\n"
#define HOST "Host: x\r\n"
#define FOLDED GET HOST "X: 1\r\n 2\r\n\r\n"
#define SPACED GET HOST "X : 1\r\n\r\n"
#define BARE "GET /a HTTP/1.1\nHost: x\n\n"
#define HOSTLESS GET "\r\n"
#define BLANKS "GET /a b HTTP/1.1\r\n" HOST "\r\n"
#define WIDE "GET  /a  HTTP/1.1\r\n" HOST "\r\n"
#define NAMELESS GET HOST ": 1\r\n" GET HOST "\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define TEN(TEXT) TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT
#define THOUSAND TEN(TEN(TEN("&")))

const struct head_trap head_traps[] = {
    {"length_and_chunked", "Content-Length beside Transfer-Encoding: chunked is accepted; chunked wins", taken_5,
     SENT(POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")},
    {"two_lengths", "Two lengths are accepted; the first wins", taken_4,
     SENT(POST "Content-Length: 4\r\nContent-Length: 5\r\n\r\nhello")},
    {"other_coding_hangs", "Transfer-Encoding: gzip, chunked gets no answer", silent,
     SENT(POST "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")},
    {"chunked_in_1_0", "HTTP/1.0 with Transfer-Encoding: chunked is accepted, and the connection kept",
     taken_2_and_kept,
     SENT("POST /a HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")},
    {"blank_after_length", "A Content-Length followed by a blank is accepted", taken_4,
     SENT(POST "Content-Length: 4 \r\n\r\nbody")},
    {"blank_after_coding", "Transfer-Encoding: chunked followed by a blank is accepted", taken_2,
     SENT(POST "Transfer-Encoding: chunked \r\n\r\n2\r\nab\r\n0\r\n\r\n")},
    {"no_length_is_empty", "A POST without a length has an empty body", taken_empty, SENT(POST "\r\n")},
    {"bad_length_twice", "A malformed Content-Length is answered twice", twice, SENT(POST "Content-Length: x\r\n\r\n")},
    {"length_over_64_bits", "A Content-Length over 64 bits is answered with 413", status_413,
     SENT(POST "Content-Length: 18446744073709551616\r\n\r\n")},
    {"length_over_64_bits_twice", "A Content-Length over 64 bits is answered twice", twice,
     SENT(POST "Content-Length: 18446744073709551616\r\n\r\n")},
    {"bad_chunk", "A malformed chunk is answered with 400", status_400,
     SENT(POST "Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n")},
    {"chunk_bare_lf", "A bare LF at the end of a chunk's first line is accepted", taken_2,
     SENT(CHUNKED "2\nab\r\n0\r\n\r\n")},
    {"chunk_extension_refused", "A chunk with an extension is answered with 400", status_400,
     SENT(CHUNKED "2;a=b\r\nab\r\n0\r\n\r\n")},
    {"chunk_extension_control", "A control byte in a chunk's extension is accepted", taken_2,
     SENT(CHUNKED "2;a\0b\r\nab\r\n0\r\n\r\n")},
    {"no_host", "HTTP/1.1 without Host is accepted", taken, SENT(HOSTLESS)},
    {"two_hosts", "HTTP/1.1 with two Hosts is accepted", taken, SENT(GET HOST HOST "\r\n")},
    {"bare_lf", "Lines that end with a bare LF are accepted", taken, SENT(BARE)},
    {"folded_line", "A folded header is accepted", taken, SENT(FOLDED)},
    {"folded_into_name", "A folded header's second line is appended to its name, not to its value", folded_into_name,
     SENT(FOLDED)},
    {"blank_before_colon", "A blank before a header's colon is accepted", taken, SENT(SPACED)},
    {"blank_after_value", "A header's value is handed over with its trailing blanks", value_whole,
     SENT(GET HOST "X: 12 \r\n\r\n")},
    {"name_missing", "A header without a name ends the head; the next line begins another request", two,
     SENT(NAMELESS)},
    {"nul_in_value", "A NUL silently cuts a header's value", value_cut, SENT(GET HOST "X: 1\0002\r\n\r\n")},
    {"nul_in_target", "A NUL silently cuts the target", target_cut, SENT("GET /a\0b HTTP/1.1\r\n" HOST "\r\n")},
    {"coded_nul_in_argument", "The value of ?X=x%00y is handed over with length 3", value_whole,
     SENT("GET /a?X=x%00y HTTP/1.1\r\n" HOST "\r\n")},
    {"coded_nul_in_path", "/a%00b arrives as /a", path_cut, SENT("GET /a%00b HTTP/1.1\r\n" HOST "\r\n")},
    {"path_decoded", "/a%2Fb arrives as /a/b", path_decoded, SENT("GET /a%2Fb HTTP/1.1\r\n" HOST "\r\n")},
    {"bad_percent", "%zz and a lone % are handed over as they are", percent_kept,
     SENT("GET /a%zz% HTTP/1.1\r\n" HOST "\r\n")},
    {"plus_is_blank", "A + in an argument becomes a blank", plus_is_blank,
     SENT("GET /a?X=1+2 HTTP/1.1\r\n" HOST "\r\n")},
    {"argument_without_value", "The value of an argument without = is NULL", value_missing,
     SENT("GET /a?X HTTP/1.1\r\n" HOST "\r\n")},
    {"header_without_value", "The value of a header without one is NULL", value_missing, SENT(GET HOST "X:\r\n\r\n")},
    {"query_unanswered", "A query gets no answer if its parameters do not fit into the memory", unanswered,
     SENT("GET /a?" THOUSAND " HTTP/1.1\r\n" HOST "\r\n")},
    {"absolute_target", "An absolute target is handed over as it is", target_absolute,
     SENT("GET http://x/a HTTP/1.1\r\n" HOST "\r\n")},
    {"blank_in_target", "A blank in the target is accepted", taken, SENT(BLANKS)},
    {"wide_line", "Several blanks between the parts of the first line are accepted", taken, SENT(WIDE)},
    {"no_target", "A first line without a target is accepted; the target is NULL", target_missing,
     SENT("GET \r\n" HOST "\r\n")},
    {"no_version", "A first line without a version is accepted", handled, SENT("GET /a\r\n" HOST "\r\n")},
    {"any_version", "FOO is accepted as a version", taken, SENT("GET /a FOO\r\n" HOST "\r\n")},
    {"any_method", "A method of any name is accepted", any_method, SENT("get /a HTTP/1.1\r\n" HOST "\r\n")},
    {"http_2", "HTTP/2.0 is answered with 505", status_505, SENT("GET /a HTTP/2.0\r\n" HOST "\r\n")},
    {"pipelined", "Requests that come together are answered one after the other", three,
     SENT(GET HOST "\r\n" POST "Content-Length: 4\r\n\r\nbody" GET HOST "\r\n")},
};
const int head_trap_count = sizeof head_traps / sizeof *head_traps;

enum outcome head_trap_attempt(const struct head_trap *trap) {
  struct stage stage = {.handle = NULL};
  stage_open(&stage);
  stage_send(&stage, trap->text, trap->size);
  stage_run(&stage);
  return outcome(trap->seen(&stage));
}
