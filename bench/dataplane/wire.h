/* What engine and load client agree on, so that the client can check every byte without reading JSON. */
#ifndef WIRE_H
#define WIRE_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Bytes of every event of a stream but the last two, and where in it the 19 digits of its sending time are. */
#define EVENT_SIZE 332
#define STAMP_AT 16
#define STAMP_SIZE 19

static const char EVENT_HEAD[] = "data: {\"stamp\":\"";
static const char EVENT_REST[] =
    "\",\"id\":\"0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1764000000,"
    "\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\",\"reasoning_content\":null,"
    "\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":null,\"matched_stop\":null}],\"usage\":null";

static const char LAST_EVENTS[] =
    "data: {\"id\":\"0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1764000000,"
    "\"model\":\"bench\",\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"total_tokens\":116,"
    "\"completion_tokens\":100}}\n\ndata: [DONE]\n\n";

static const char WHOLE_ANSWER[] =
    "{\"id\":\"0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1764000000,"
    "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"A short answer.\","
    "\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":\"stop\","
    "\"matched_stop\":2}],\"usage\":{\"prompt_tokens\":16,\"total_tokens\":20,\"completion_tokens\":4,"
    "\"prompt_tokens_details\":null}}";

static inline int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline void set_nonblocking(int fd) {
    int one = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

#endif
