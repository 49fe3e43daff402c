/* A long way between two network namespaces: link NAMESPACE NAMESPACE DELAY_US LOSS_PERCENT
 *
 * Makes a device `way` in each. What one sends leaves the other after the delay, but for those packets that are lost at random, the same ones
 * in every run of as many packets. Says "ready", and goes on until it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* More than a window of any transport; one more packet is lost. */
enum { QUEUE = 1 << 16, PACKET_MAX = 1 << 16 };

struct packet {
    int64_t due_ns;
    int bytes;
    char *content;
};

/* Oldest first: all are held up for as long. */
struct direction {
    struct packet queue[QUEUE];
    uint32_t head, tail;
};

static struct direction directions[2];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int device_in(const char *namespace) {
    int entered = open(namespace, O_RDONLY);
    if (entered < 0 || setns(entered, CLONE_NEWNET) < 0)
        fail(namespace);
    close(entered);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    struct ifreq request = {.ifr_name = "way", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (device < 0 || ioctl(device, TUNSETIFF, &request) < 0)
        fail("/dev/net/tun");
    return device;
}

static void take(struct direction *direction, int from, int64_t delay_ns, double loss) {
    static char buffer[PACKET_MAX];
    int bytes;
    while ((bytes = read(from, buffer, sizeof buffer)) > 0) {
        if (drand48() < loss || direction->tail - direction->head == QUEUE)
            continue;
        struct packet *packet = &direction->queue[direction->tail++ % QUEUE];
        packet->due_ns = now_ns() + delay_ns;
        packet->bytes = bytes;
        if ((packet->content = malloc(bytes)) == NULL)
            fail("malloc");
        memcpy(packet->content, buffer, bytes);
    }
}

/* When the next is due; INT64_MAX: there is none. */
static int64_t give(struct direction *direction, int to) {
    while (direction->head != direction->tail) {
        struct packet *packet = &direction->queue[direction->head % QUEUE];
        if (packet->due_ns > now_ns())
            return packet->due_ns;
        /* What a device that is not up refuses is lost. */
        if (write(to, packet->content, packet->bytes) < 0) {}
        free(packet->content);
        direction->head++;
    }
    return INT64_MAX;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    int devices[2] = {device_in(argv[1]), device_in(argv[2])};
    int64_t delay_ns = atoll(argv[3]) * 1000;
    double loss = atof(argv[4]) / 100;
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd ready[2];
        int64_t next = INT64_MAX;
        for (int from = 0; from < 2; from++) {
            int64_t due = give(&directions[from], devices[!from]);
            next = due < next ? due : next;
            ready[from] = (struct pollfd){.fd = devices[from], .events = POLLIN};
        }
        int64_t wait = next == INT64_MAX ? next : next - now_ns();
        wait = wait < 0 ? 0 : wait;
        struct timespec time = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        if (ppoll(ready, 2, next == INT64_MAX ? NULL : &time, NULL) < 0)
            fail("ppoll");
        for (int from = 0; from < 2; from++)
            if (ready[from].revents)
                take(&directions[from], devices[from], delay_ns, loss);
    }
}
