/* A load client that costs little: keeps requests open over C connections and checks every answer to the byte.

   load PORT CONNECTIONS REQUESTS RAMP_MS LIMIT_S CHUNKS BODY_FILE

   Each connection sends its next request when its answer is complete, REQUESTS in all; they begin RAMP_MS/C
   apart. CHUNKS: events of every answer before its last two; 0: one JSON object. Prints one JSON object; times
   are milliseconds. */

#define _GNU_SOURCE
#include "wire.h"

enum state { WAITING, CONNECTING, SENDING, HEAD, LENGTH, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_LAST };

typedef struct {
    int fd, polls_out;
    enum state state;
    size_t sent;               /* bytes of the request */
    int64_t began, last;       /* when the request began; when its latest event came */
    int64_t left;              /* bytes of this chunk, or of the body */
    size_t body;               /* bytes of the body so far */
    size_t line_size;
    char line[8192];           /* the head, or a chunk's size line */
    char event[EVENT_SIZE];
    char tail[1024];           /* what follows the events */
    size_t tail_size;
    int closing;               /* the server will close after this answer */
} Lane;

typedef struct { uint32_t *of; size_t count, room; } Samples; /* microseconds */

static Samples firsts, delays, gaps, whole;
static struct sockaddr_in server;
static char *request;
static size_t request_size;
static int poller, chunks, started, wanted, finished, failed;
static char why[256];

static void note(Samples *s, int64_t ns) {
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 65536;
        s->of = realloc(s->of, s->room * sizeof *s->of);
    }
    s->of[s->count++] = ns < 0 ? 0 : (uint32_t)(ns / 1000);
}

static void watch(Lane *lane, int how, int polls_out) {
    struct epoll_event e = {.events = EPOLLIN | (polls_out ? EPOLLOUT : 0), .data.ptr = lane};
    epoll_ctl(poller, how, lane->fd, &e);
    lane->polls_out = polls_out;
}

static void hang_up(Lane *lane) {
    if (lane->fd >= 0) close(lane->fd);
    lane->fd = -1;
    lane->state = WAITING;
}

static void begin(Lane *lane);

static void fail(Lane *lane, const char *what) {
    if (!failed++) snprintf(why, sizeof why, "%s after %zu body bytes", what, lane->body);
    hang_up(lane);
    begin(lane);
}

static void push(Lane *lane) {
    while (lane->sent < request_size) {
        ssize_t n = send(lane->fd, request + lane->sent, request_size - lane->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            if (!lane->polls_out) watch(lane, EPOLL_CTL_MOD, 1);
            return;
        }
        if (n < 0) { fail(lane, "broken while sending"); return; }
        lane->sent += n;
    }
    if (lane->state == SENDING) lane->state = HEAD;
    if (lane->polls_out) watch(lane, EPOLL_CTL_MOD, 0);
}

static void begin(Lane *lane) {
    if (started == wanted) { hang_up(lane); return; }
    started++;
    lane->sent = lane->body = lane->line_size = lane->tail_size = 0;
    lane->last = 0;
    lane->closing = 0;
    if (lane->fd >= 0) {
        lane->state = SENDING;
        lane->began = now_ns();
        push(lane);
        return;
    }
    lane->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (lane->fd < 0) die("socket");
    set_nonblocking(lane->fd);
    lane->state = CONNECTING;
    lane->began = now_ns();
    if (connect(lane->fd, (struct sockaddr *)&server, sizeof server) < 0 && errno != EINPROGRESS) die("connect");
    watch(lane, EPOLL_CTL_ADD, 1);
}

/* ---- an answer's body */

static void take_event(Lane *lane, int64_t now) {
    char digits[STAMP_SIZE + 1] = {0};
    memcpy(digits, lane->event + STAMP_AT, STAMP_SIZE);
    note(&delays, now - atoll(digits));
    if (lane->last) note(&gaps, now - lane->last);
    lane->last = now;
}

static void take_body(Lane *lane, const char *data, size_t size, int64_t now) {
    size_t of_events = (size_t)chunks * EVENT_SIZE;
    if (lane->body == 0 && size) note(&firsts, now - lane->began);
    while (size && lane->body < of_events) {
        size_t at = lane->body % EVENT_SIZE, n = EVENT_SIZE - at < size ? EVENT_SIZE - at : size;
        memcpy(lane->event + at, data, n);
        lane->body += n;
        data += n;
        size -= n;
        if (at + n == EVENT_SIZE) take_event(lane, now);
    }
    lane->body += size;
    if (lane->tail_size + size < sizeof lane->tail) memcpy(lane->tail + lane->tail_size, data, size);
    lane->tail_size += size;
}

static void complete(Lane *lane, int64_t now) {
    const char *expected = chunks ? LAST_EVENTS : WHOLE_ANSWER;
    size_t size = strlen(expected);
    if (lane->tail_size != size || memcmp(lane->tail, expected, size) != 0) { fail(lane, "an answer differs"); return; }
    note(&whole, now - lane->began);
    finished++;
    if (lane->closing) hang_up(lane);
    begin(lane);
}

/* ---- an answer's framing */

static int take_head(Lane *lane) {
    char *head = lane->line;
    if (strncmp(head, "HTTP/1.1 200", 12) != 0) return 0;
    char *length = strcasestr(head, "\r\ncontent-length:");
    lane->closing = strcasestr(head, "\r\nconnection: close") != NULL;
    lane->left = length ? atoll(length + 17) : 0;
    lane->state = length ? LENGTH : CHUNK_SIZE;
    return length || strcasestr(head, "\r\ntransfer-encoding: chunked");
}

/* Bytes up to the end of a line, or of the head, go to lane->line. Bytes used; *whole is set at its end. */
static size_t take_line(Lane *lane, const char *data, size_t size, const char *end, int *complete_line) {
    size_t used = 0, mark = strlen(end);
    *complete_line = 0;
    while (used < size && lane->line_size < sizeof lane->line - 1) {
        lane->line[lane->line_size++] = data[used++];
        if (lane->line_size >= mark && memcmp(lane->line + lane->line_size - mark, end, mark) == 0) {
            lane->line[lane->line_size] = 0;
            lane->line_size = 0;
            *complete_line = 1;
            break;
        }
    }
    return used;
}

static void take(Lane *lane, const char *data, size_t size) {
    int64_t now = now_ns();
    int whole_line;
    while (size) {
        size_t used = size;
        switch (lane->state) {
        case HEAD:
        case SENDING:
            used = take_line(lane, data, size, "\r\n\r\n", &whole_line);
            if (whole_line && !take_head(lane)) { fail(lane, lane->line); return; }
            if (!whole_line && used < size) { fail(lane, "too long a head"); return; }
            break;
        case LENGTH:
        case CHUNK_DATA:
            if ((int64_t)used > lane->left) used = lane->left;
            take_body(lane, data, used, now);
            lane->left -= used;
            if (lane->left == 0 && lane->state == LENGTH) { complete(lane, now); return; }
            if (lane->left == 0) lane->state = CHUNK_END;
            break;
        case CHUNK_SIZE:
            used = take_line(lane, data, size, "\r\n", &whole_line);
            if (!whole_line) break;
            lane->left = strtoll(lane->line, NULL, 16);
            lane->state = lane->left ? CHUNK_DATA : CHUNK_LAST;
            break;
        case CHUNK_END:
            used = take_line(lane, data, size, "\r\n", &whole_line);
            if (whole_line) lane->state = CHUNK_SIZE;
            break;
        case CHUNK_LAST:
            take_line(lane, data, size, "\r\n", &whole_line);
            if (whole_line) complete(lane, now);
            return;
        default:
            fail(lane, "bytes nobody asked for");
            return;
        }
        data += used;
        size -= used;
    }
}

static void receive(Lane *lane) {
    static char scratch[1 << 18];
    ssize_t got = recv(lane->fd, scratch, sizeof scratch, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) fail(lane, "broken while receiving");
    else take(lane, scratch, got);
}

/* ---- report */

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_samples(const char *name, Samples *s) {
    static const double shares[] = {0.5, 0.9, 0.99, 0.999, 1.0};
    static const char *const names[] = {"p50", "p90", "p99", "p999", "max"};
    qsort(s->of, s->count, sizeof *s->of, by_size);
    printf(",\"%s\":{\"count\":%zu", name, s->count);
    for (int i = 0; i < 5 && s->count; i++)
        printf(",\"%s\":%.3f", names[i], s->of[(size_t)(shares[i] * (s->count - 1))] / 1000.0);
    printf("}");
}

static void read_request(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path);
    fseek(file, 0, SEEK_END);
    size_t size = ftell(file);
    rewind(file);
    request = malloc(size + 256);
    request_size = sprintf(request, "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\naccept: */*\r\n"
                                    "content-type: application/json\r\ncontent-length: %zu\r\n\r\n", size);
    if (fread(request + request_size, 1, size, file) != size) die(path);
    request_size += size;
    fclose(file);
}

int main(int count, char **arguments) {
    struct epoll_event events[512];
    if (count != 8) { fputs("wrong number of arguments\n", stderr); return 2; }
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int connections = atoi(arguments[2]), begun = 0;
    wanted = atoi(arguments[3]);
    chunks = atoi(arguments[6]);
    read_request(arguments[7]);
    poller = epoll_create1(0);
    Lane *lanes = calloc(connections, sizeof *lanes);
    int64_t start = now_ns(), step = connections ? atoll(arguments[4]) * 1000000 / connections : 0;
    int64_t end = start + atoll(arguments[5]) * 1000000000;
    while (finished + failed < wanted && now_ns() < end) {
        for (; begun < connections && start + begun * step <= now_ns(); begun++) {
            lanes[begun].fd = -1;
            begin(&lanes[begun]);
        }
        int ready = epoll_wait(poller, events, 512, begun < connections ? 1 : 100);
        for (int i = 0; i < ready; i++) {
            Lane *lane = events[i].data.ptr;
            if (lane->state == CONNECTING) { lane->state = SENDING; push(lane); continue; }
            if (lane->fd >= 0 && (events[i].events & EPOLLOUT) && lane->state == SENDING) push(lane);
            if (lane->fd >= 0 && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) receive(lane);
        }
    }
    printf("{\"finished\":%d,\"failed\":%d,\"unfinished\":%d,\"seconds\":%.3f,\"why\":\"%.*s\"", finished, failed,
           wanted - finished - failed, (now_ns() - start) / 1e9, (int)strcspn(why, "\r\n\""), why);
    print_samples("ttft", &firsts);
    print_samples("delay", &delays);
    print_samples("gap", &gaps);
    print_samples("whole", &whole);
    printf("}\n");
    return 0;
}
