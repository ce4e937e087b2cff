/* An engine that costs next to nothing: it answers what routers ask an SGLang server and streams by the clock.

   engine PORT...

   A prompt that holds "bench chunks=K every_us=D " is answered with K events, D microseconds apart (0: as
   fast as they are taken), each by a send() of its own; K=0: with one small JSON object. */

#define _GNU_SOURCE
#include "wire.h"

#include <signal.h>
#include <sys/timerfd.h>

#define KEPT 16384      /* of each request; its command must be in there */
#define UNPACED_TURN 32 /* events of an unpaced stream before the others get their turn */
#define MAX_CONNECTIONS 65536

typedef struct {
    int fd, listening;
    size_t kept, head;    /* bytes kept of this request; size of its head once that is whole, else 0 */
    int64_t body_left;    /* bytes of its body that have not come yet */
    int chunks_left, streaming;
    int64_t every, due;   /* ns */
    int slot;             /* place in the heap of streams, -1: none */
    char unsent[EVENT_SIZE + 64];
    size_t unsent_from, unsent_to;
    char in[KEPT + 1];
} Connection;

static Connection *heap[MAX_CONNECTIONS];
static int heap_size, poller, timer;
static char scratch[1 << 18];
static char event[EVENT_SIZE + 16]; /* with the framing of its HTTP chunk */
static size_t event_size, event_stamp;

/* ---- the heap: streams by the time of their next event */

static void put(int at, Connection *c) { heap[at] = c; c->slot = at; }

static void sift(int at) {
    Connection *c = heap[at];
    while (at > 0 && heap[(at - 1) / 2]->due > c->due) { put(at, heap[(at - 1) / 2]); at = (at - 1) / 2; }
    for (;;) {
        int low = 2 * at + 1;
        if (low >= heap_size) break;
        if (low + 1 < heap_size && heap[low + 1]->due < heap[low]->due) low++;
        if (heap[low]->due >= c->due) break;
        put(at, heap[low]);
        at = low;
    }
    put(at, c);
}

static void schedule(Connection *c) {
    if (c->slot < 0) { heap[heap_size] = c; c->slot = heap_size++; }
    sift(c->slot);
}

static void unschedule(Connection *c) {
    int at = c->slot;
    if (at < 0) return;
    c->slot = -1;
    if (at == --heap_size) return;
    put(at, heap[heap_size]);
    sift(at);
}

/* ---- sending */

static void drop(Connection *c) { unschedule(c); close(c->fd); free(c); }

static void want_out(Connection *c, int wanted) {
    struct epoll_event e = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

/* One send(); what the kernel does not take is kept. 0: the peer is gone. */
static int send_all(Connection *c, const char *data, size_t size) {
    ssize_t sent = send(c->fd, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return 0;
    if (sent < 0) sent = 0;
    if ((size_t)sent < size) {
        c->unsent_from = 0;
        c->unsent_to = size - sent;
        memcpy(c->unsent, data + sent, c->unsent_to);
        want_out(c, 1);
    }
    return 1;
}

static int busy(Connection *c) { return c->unsent_from < c->unsent_to; }

static int send_event(Connection *c, int64_t now) {
    char digits[STAMP_SIZE + 1];
    snprintf(digits, sizeof digits, "%019lld", (long long)now);
    memcpy(event + event_stamp, digits, STAMP_SIZE);
    return send_all(c, event, event_size);
}

static int send_last(Connection *c) {
    char out[sizeof c->unsent];
    int size = snprintf(out, sizeof out, "%zx\r\n%s\r\n0\r\n\r\n", sizeof LAST_EVENTS - 1, LAST_EVENTS);
    c->streaming = 0;
    unschedule(c);
    return send_all(c, out, size);
}

/* Send what is due. 0: the connection was dropped. */
static int advance(Connection *c) {
    int turns = 0;
    while (c->streaming && !busy(c)) {
        int64_t now = now_ns();
        if (c->due > now || turns++ == UNPACED_TURN) { schedule(c); return 1; }
        int alive = c->chunks_left > 0 ? send_event(c, now) : send_last(c);
        if (!alive) { drop(c); return 0; }
        c->chunks_left--;
        c->due = c->every ? c->due + c->every : now;
    }
    unschedule(c);
    return 1;
}

static int flush(Connection *c) {
    ssize_t sent = send(c->fd, c->unsent + c->unsent_from, c->unsent_to - c->unsent_from, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) { drop(c); return 0; }
    if (sent > 0) c->unsent_from += sent;
    if (busy(c)) return 1;
    want_out(c, 0);
    return advance(c);
}

/* ---- answering */

static int send_whole(Connection *c, int status, const char *type, const char *body) {
    char out[4096];
    int size = snprintf(out, sizeof out, "HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %zu\r\n\r\n%s", status,
                        status == 200 ? "OK" : "Not Found", type, strlen(body), body);
    return send(c->fd, out, size, MSG_NOSIGNAL) == size;
}

static const char *const SIDE[][2] = {
    {"/v1/models", "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":1764000000,"
                   "\"owned_by\":\"sglang\",\"root\":\"bench\",\"max_model_len\":8192}]}"},
    {"/v1/loads", "{\"timestamp\":\"2026-01-01T00:00:00\",\"version\":\"0.5.23\",\"dp_rank_count\":1,\"loads\":[{"
                  "\"dp_rank\":0,\"num_running_reqs\":0,\"num_waiting_reqs\":0,\"num_total_reqs\":0,"
                  "\"token_usage\":0.0,\"gen_throughput\":0.0}]}"},
    {"/model_info", "{\"model_path\":\"bench\",\"tokenizer_path\":\"\",\"is_generation\":true}"},
    {"/get_model_info", "{\"model_path\":\"bench\",\"tokenizer_path\":\"\",\"is_generation\":true}"},
    {"/server_info", "{\"model_path\":\"bench\",\"served_model_name\":\"bench\",\"version\":\"0.5.23\"}"},
    {"/get_server_info", "{\"model_path\":\"bench\",\"served_model_name\":\"bench\",\"version\":\"0.5.23\"}"},
    {"/metrics", "# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total 1.0\n"},
    {"/ready", ""},
    {"/health", ""},
};

static int answer_side(Connection *c, const char *target) {
    size_t size = strcspn(target, " ?");
    for (size_t i = 0; i < sizeof SIDE / sizeof *SIDE; i++)
        if (strlen(SIDE[i][0]) == size && memcmp(target, SIDE[i][0], size) == 0)
            return send_whole(c, 200, *SIDE[i][1] == '{' ? "application/json" : "text/plain", SIDE[i][1]);
    return send_whole(c, 404, "text/plain", "");
}

static int answer(Connection *c) {
    static const char head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                               "transfer-encoding: chunked\r\n\r\n";
    int chunks = 0;
    long every_us = 0;
    int is_get = strncmp(c->in, "GET ", 4) == 0;
    char *command = strstr(c->in, "bench chunks=");
    c->kept = c->head = 0;
    if (is_get) return answer_side(c, c->in + 4);
    if (command) sscanf(command, "bench chunks=%d every_us=%ld ", &chunks, &every_us);
    if (chunks <= 0) return send_whole(c, 200, "application/json", WHOLE_ANSWER);
    c->chunks_left = chunks;
    c->every = every_us * 1000;
    c->due = now_ns();
    c->streaming = 1;
    return send(c->fd, head, sizeof head - 1, MSG_NOSIGNAL) == sizeof head - 1 ? 1 : 0;
}

/* The head is whole: how long is the body? -1: not a request for this engine. */
static int64_t body_length(Connection *c) {
    char *end = strstr(c->in, "\r\n\r\n");
    if (!end) return 0;
    c->head = end + 4 - c->in;
    for (char *line = strstr(c->in, "\r\n"); line && line < end; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, "content-length:", 15) == 0) return atoll(line + 17);
        if (strncasecmp(line + 2, "transfer-encoding:", 18) == 0) return -1;
    }
    return 0;
}

/* 0: the connection is to be dropped. */
static int take(Connection *c, const char *data, size_t size) {
    size_t room = KEPT - c->kept, copied = size < room ? size : room;
    memcpy(c->in + c->kept, data, copied);
    c->kept += copied;
    c->in[c->kept] = 0;
    if (!c->head) {
        int64_t length = body_length(c);
        if (!c->head) return c->kept < KEPT;
        if (length < 0) return 0;
        c->body_left = length - (int64_t)(size - copied) - (int64_t)(c->kept - c->head);
    } else {
        c->body_left -= size;
    }
    return c->body_left > 0 || answer(c);
}

static void receive(Connection *c) {
    ssize_t got = recv(c->fd, scratch, sizeof scratch, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0 || !take(c, scratch, got)) { drop(c); return; }
    if (c->streaming) advance(c);
}

static void join(int listener) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return;
    set_nonblocking(fd);
    Connection *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->slot = -1;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

static void listen_on(int port) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0) die("bind");
    listen(fd, 4096);
    set_nonblocking(fd);
    Connection *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->listening = 1;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

static void make_event(void) {
    int size = sprintf(event, "%x\r\n", EVENT_SIZE);
    size_t from = size;
    size += sprintf(event + size, "%s%0*d%s", EVENT_HEAD, STAMP_SIZE, 0, EVENT_REST);
    while ((size_t)size < from + EVENT_SIZE - 3) event[size++] = ' ';
    memcpy(event + size, "}\n\n\r\n", 5);
    event_stamp = from + STAMP_AT;
    event_size = from + EVENT_SIZE + 2;
    if ((size_t)size + 5 != event_size) { fputs("an event has the wrong size\n", stderr); exit(1); }
}

int main(int count, char **arguments) {
    struct epoll_event events[512];
    signal(SIGPIPE, SIG_IGN);
    make_event();
    poller = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event tick = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &tick);
    for (int i = 1; i < count; i++) listen_on(atoi(arguments[i]));
    for (;;) {
        if (heap_size) {
            int64_t due = heap[0]->due > 0 ? heap[0]->due : 1;
            struct itimerspec at = {.it_value = {due / 1000000000, due % 1000000000}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        }
        int ready = epoll_wait(poller, events, 512, -1);
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            uint64_t fired;
            if (!c) {
                if (read(timer, &fired, sizeof fired) < 0 && errno != EAGAIN) die("timer");
                continue;
            }
            if (c->listening) { join(c->fd); continue; }
            if (events[i].events & EPOLLOUT) { if (!flush(c)) continue; }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        }
        int64_t now = now_ns();
        for (int n = heap_size; n > 0 && heap_size && heap[0]->due <= now; n--) advance(heap[0]);
    }
}
