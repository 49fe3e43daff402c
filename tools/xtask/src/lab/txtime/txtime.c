/*
 * What pacing of UDP costs: by a token bucket of the program's own, which sends when half of it is full, or by SO_TXTIME,
 * where the program stamps what leaves in the next 10 ms and `fq` sends it. The first program of a guest whose clock counts
 * instructions (measure.sh): what a process of the lowest priority is left with tells what all of it costs, timers and
 * interrupts too. Bursts are by UDP_SEGMENT, of 1 ms, at least 8 KiB, as Rx sends them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SEGMENT = 1444, UDP_SEGMENT_OPTION = 103, AHEAD_NS = 10000000, RUN_NS = 1000000000 };

static volatile uint64_t *soaked;
static uint64_t sends, wakes, sent_bytes;

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void sleep_until(uint64_t at) {
    struct timespec when = { at / 1000000000ull, at % 1000000000ull };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

/* One burst; `leaves` is 0 for at once. */
static void send_burst(int fd, int len, uint64_t leaves) {
    static char payload[65536];
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7000) };
    char control[CMSG_SPACE(2) + CMSG_SPACE(8)] = { 0 };
    struct iovec part = { payload, len };
    struct msghdr message = { .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1,
                              .msg_control = control, .msg_controllen = leaves ? sizeof control : CMSG_SPACE(2) };
    struct cmsghdr *told = CMSG_FIRSTHDR(&message);
    int sent;
    inet_aton("10.9.9.2", &to.sin_addr);
    told->cmsg_level = IPPROTO_UDP;
    told->cmsg_type = UDP_SEGMENT_OPTION;
    told->cmsg_len = CMSG_LEN(2);
    *(uint16_t *)CMSG_DATA(told) = SEGMENT;
    if (leaves) {
        told = CMSG_NXTHDR(&message, told);
        told->cmsg_level = SOL_SOCKET;
        told->cmsg_type = SO_TXTIME;
        told->cmsg_len = CMSG_LEN(8);
        memcpy(CMSG_DATA(told), &leaves, 8);
    }
    sent = sendmsg(fd, &message, 0);
    if (sent < 0) perror("sendmsg");
    else sent_bytes += sent;
    sends++;
}

/* Sends for a second; returns the soaker's loops. */
static uint64_t run(int own, int flows, double bytes_per_second) {
    double each = bytes_per_second / flows, half = each / 1000;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 1 << 26, burst;
    uint64_t *next = calloc(flows, sizeof *next), began = now(), end = began + RUN_NS, soaked_before, at, gap;
    half = half < 8192 ? 8192 : half > 63536 ? 63536 : half;
    burst = (int)half / SEGMENT * SEGMENT;
    gap = burst / each * 1e9;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    if (!own) {
        struct sock_txtime clock = { CLOCK_MONOTONIC, 0 };
        if (setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, sizeof clock)) perror("SO_TXTIME");
    }
    for (int flow = 0; flow < flows; flow++) next[flow] = began + 1000000 + gap / flows * flow;
    sends = wakes = sent_bytes = 0;
    soaked_before = *soaked;
    while ((at = now()) < end) {
        uint64_t until = own ? at : at + AHEAD_NS, first = end;
        for (int flow = 0; flow < flows && bytes_per_second > 0; flow++) {
            for (; next[flow] <= until; next[flow] += gap) send_burst(fd, burst, own ? 0 : next[flow]);
            if (next[flow] < first) first = next[flow];
        }
        wakes++;
        sleep_until(own || until > end ? first : until);
    }
    soaked_before = *soaked - soaked_before;
    /* What is stamped leaves before the next run. */
    sleep_until(now() + 3 * AHEAD_NS);
    close(fd);
    free(next);
    return soaked_before;
}

static void load_module(const char *file) {
    int fd = open(file, O_RDONLY);
    if (syscall(SYS_finit_module, fd, "", 0)) perror(file);
    close(fd);
}

int main(void) {
    uint64_t idle;
    mount("proc", "/proc", "proc", 0, 0);
    mount("sysfs", "/sys", "sysfs", 0, 0);
    load_module("/veth.ko");
    load_module("/sch_fq.ko");
    if (system("/ip link add v0 type veth peer name v1 && /ip addr add 10.9.9.1/24 dev v0 && /ip link set v0 up && "
               "/ip link set v1 up && /ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev v0 && "
               "/tc qdisc replace dev v0 root fq flow_limit 10000 limit 100000"))
        printf("no veth with fq\n");
    soaked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!fork()) {
        struct sched_param none = { 0 };
        sched_setscheduler(0, SCHED_IDLE, &none);
        for (;;) ++*soaked;
    }
    idle = run(1, 1, 0);
    for (int round = 0; round < 2; round++)
        for (int flows = 1; flows <= 100; flows *= 100)
            for (int mbits = 100; mbits <= 1600; mbits *= 4)
                for (int own = 1; own >= 0; own--) {
                    double busy = 1 - (double)run(own, flows, mbits * 125000.0) / idle;
                    printf("%s, %d connections, %d Mb/s: %.2f %% busy, %.0f instructions a packet, %lu sends, %lu "
                           "wake-ups\n", own ? "own bucket" : "SO_TXTIME", flows, mbits, busy * 100,
                           busy * RUN_NS / (sent_bytes / SEGMENT), sends, wakes);
                    fflush(stdout);
                }
    reboot(RB_POWER_OFF);
}
