// What it costs a process to bring bytes from the page cache to a socket, and from a socket to the page cache, in the ways that the running
// kernel has for it. One message is a header and 1 MiB, as SMB has them.
//
//   ways peer ADDRESS PORT
//       Takes what it is sent, or sends; prints a line when it listens.
//   ways work ADDRESS PORT DIR MESSAGES ROUNDS
//       The ways take turns. A line for each turn: microseconds of this process a message, those of the ring's own threads among them, then
//       the way. A way that the kernel does not have prints what is in its way instead of a figure.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    HEADER = 80,
    MESSAGE = 1 << 20,
    // Of the file, which is read and written again and again: nothing of it leaves the cache.
    FILE_MESSAGES = 64,
    // Pieces of memory. Zero-copy sends hold one each until it is acknowledged.
    PIECES = 4,
    ENTRIES = 16,
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

// The ring.

static struct {
    int fd;
    unsigned to_submit;
    struct io_uring_sqe *sqes;
    _Atomic unsigned *sq_tail, *cq_head, *cq_tail;
    unsigned sq_mask, cq_mask;
    unsigned *array;
    struct io_uring_cqe *cqes;
} ring;

static char *map(size_t len, uint64_t at) {
    void *mapped = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, (off_t)at);
    if (mapped == MAP_FAILED) die("mmap of the ring");
    return mapped;
}

static void ring_begin(void) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL,
    };
    ring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring.fd < 0) die("io_uring_setup");
    char *sq = map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring.sqes = (void *)map(params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.sq_tail = (void *)(sq + params.sq_off.tail);
    ring.sq_mask = *(unsigned *)(sq + params.sq_off.ring_mask);
    ring.array = (void *)(sq + params.sq_off.array);
    ring.cq_head = (void *)(cq + params.cq_off.head);
    ring.cq_tail = (void *)(cq + params.cq_off.tail);
    ring.cq_mask = *(unsigned *)(cq + params.cq_off.ring_mask);
    ring.cqes = (void *)(cq + params.cq_off.cqes);
}

// The next entry. No more are asked for than there are before they are submitted.
static struct io_uring_sqe *entry(uint8_t opcode, int fd, uint64_t user_data) {
    unsigned tail = atomic_load_explicit(ring.sq_tail, memory_order_relaxed);
    struct io_uring_sqe *sqe = &ring.sqes[tail & ring.sq_mask];
    *sqe = (struct io_uring_sqe){.opcode = opcode, .fd = fd, .user_data = user_data};
    ring.array[tail & ring.sq_mask] = tail & ring.sq_mask;
    atomic_store_explicit(ring.sq_tail, tail + 1, memory_order_release);
    ring.to_submit++;
    return sqe;
}

struct completion {
    uint64_t user_data;
    int32_t result;
    uint32_t flags;
};

// The next one, after all that is to be submitted.
static struct completion complete(void) {
    unsigned head = atomic_load_explicit(ring.cq_head, memory_order_relaxed);
    while (ring.to_submit > 0 || atomic_load_explicit(ring.cq_tail, memory_order_acquire) == head) {
        int n = (int)syscall(SYS_io_uring_enter, ring.fd, ring.to_submit, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        if (n < 0 && errno != EINTR) die("io_uring_enter");
        if (n > 0) ring.to_submit -= (unsigned)n;
    }
    const struct io_uring_cqe *cqe = &ring.cqes[head & ring.cq_mask];
    struct completion completion = {cqe->user_data, cqe->res, cqe->flags};
    atomic_store_explicit(ring.cq_head, head + 1, memory_order_release);
    return completion;
}

// What all ways work with.

static int out, in, file, pipe_in, pipe_out;
// Each with room for a header in front; registered with the ring by its number.
static char *pieces[PIECES];
// By piece: whether its pages are held yet.
static bool held[PIECES];
static unsigned turn;

// An operation's own result, or its error where the kernel does not have it.
static int failed(const char *what, long result) {
    if (result == -EINVAL || result == -EOPNOTSUPP) return (int)-result;
    errno = result < 0 ? (int)-result : EPROTO;
    die(what);
    return 0;
}

// Takes completions until `wanted` of them have come that are no notices of memory given back; the last one's result is given.
static long result_of(unsigned wanted) {
    long result = 0;
    while (wanted > 0) {
        struct completion one = complete();
        if (one.flags & IORING_CQE_F_NOTIF) {
            held[one.user_data] = false;
            continue;
        }
        if (one.flags & IORING_CQE_F_MORE) held[one.user_data] = true;
        result = one.result;
        wanted--;
    }
    return result;
}

// A piece that nobody holds.
static unsigned free_piece(void) {
    turn = (turn + 1) % PIECES;
    while (held[turn]) {
        struct completion one = complete();
        if (one.flags & IORING_CQE_F_NOTIF) held[one.user_data] = false;
    }
    return turn;
}

static off_t place(unsigned at) {
    return (off_t)(at % FILE_MESSAGES) * MESSAGE;
}

// From the page cache to the socket.

static int by_sendfile(unsigned at) {
    if (send(out, pieces[0], HEADER, MSG_MORE) != HEADER) die("send");
    off_t from = place(at), end = from + MESSAGE;
    while (from < end) {
        if (sendfile(out, file, &from, (size_t)(end - from)) <= 0) die("sendfile");
    }
    return 0;
}

static void read_into(unsigned piece, unsigned at) {
    if (pread(file, pieces[piece] + HEADER, MESSAGE, place(at)) != MESSAGE) die("pread");
}

static int by_send(unsigned at) {
    read_into(0, at);
    for (size_t sent = 0; sent < HEADER + MESSAGE;) {
        ssize_t n = send(out, pieces[0] + sent, HEADER + MESSAGE - sent, 0);
        if (n <= 0) die("send");
        sent += (size_t)n;
    }
    return 0;
}

static int by_sendmsg_of(uint8_t opcode, unsigned at) {
    unsigned piece = free_piece();
    read_into(piece, at);
    struct iovec parts[2] = {{pieces[piece], HEADER}, {pieces[piece] + HEADER, MESSAGE}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct io_uring_sqe *sqe = entry(opcode, out, piece);
    sqe->addr = (uintptr_t)&message;
    sqe->len = 1;
    sqe->msg_flags = MSG_WAITALL;
    long sent = result_of(1);
    return sent == HEADER + MESSAGE ? 0 : failed("sendmsg", sent);
}

static int by_ring_sendmsg(unsigned at) {
    return by_sendmsg_of(IORING_OP_SENDMSG, at);
}

static int by_ring_sendmsg_zc(unsigned at) {
    return by_sendmsg_of(IORING_OP_SENDMSG_ZC, at);
}

static int by_registered_send_zc(unsigned at) {
    unsigned piece = free_piece();
    struct io_uring_sqe *sqe = entry(IORING_OP_READ_FIXED, file, piece);
    sqe->addr = (uintptr_t)(pieces[piece] + HEADER);
    sqe->len = MESSAGE;
    sqe->off = (uint64_t)place(at);
    sqe->buf_index = (uint16_t)piece;
    long result = result_of(1);
    if (result != MESSAGE) return failed("read", result);
    sqe = entry(IORING_OP_SEND_ZC, out, piece);
    sqe->addr = (uintptr_t)pieces[piece];
    sqe->len = HEADER + MESSAGE;
    sqe->msg_flags = MSG_WAITALL;
    sqe->ioprio = IORING_RECVSEND_FIXED_BUF;
    sqe->buf_index = (uint16_t)piece;
    result = result_of(1);
    return result == HEADER + MESSAGE ? 0 : failed("send", result);
}

// Between two descriptors of which one is the pipe, `len` bytes at most; `off` is that of the file or -1.
typedef long (*Splice)(int from, int64_t from_off, int to, int64_t to_off, size_t len);

static long splice_by_call(int from, int64_t from_off, int to, int64_t to_off, size_t len) {
    loff_t at = from_off >= 0 ? from_off : to_off;
    ssize_t n = splice(from, from_off >= 0 ? &at : NULL, to, to_off >= 0 ? &at : NULL, len, SPLICE_F_MOVE | SPLICE_F_MORE);
    return n < 0 ? -errno : n;
}

static long splice_by_ring(int from, int64_t from_off, int to, int64_t to_off, size_t len) {
    struct io_uring_sqe *sqe = entry(IORING_OP_SPLICE, to, 0);
    sqe->splice_fd_in = from;
    sqe->splice_off_in = (uint64_t)from_off;
    sqe->off = (uint64_t)to_off;
    sqe->len = (uint32_t)len;
    sqe->splice_flags = SPLICE_F_MOVE | SPLICE_F_MORE;
    return result_of(1);
}

// As much as the pipe holds, and all of that out again, until a message is through.
static int through_the_pipe(Splice splice_one, int from, int64_t from_off, int to, int64_t to_off) {
    for (size_t done = 0; done < MESSAGE;) {
        long taken = splice_one(from, from_off < 0 ? -1 : from_off + (int64_t)done, pipe_in, -1, MESSAGE - done);
        if (taken <= 0) return failed("splice", taken);
        for (long left = taken; left > 0;) {
            long given = splice_one(pipe_out, -1, to, to_off < 0 ? -1 : to_off + (int64_t)done, (size_t)left);
            if (given <= 0) return failed("splice", given);
            left -= given;
            done += (size_t)given;
        }
    }
    return 0;
}

static int by_splice(unsigned at) {
    if (send(out, pieces[0], HEADER, MSG_MORE) != HEADER) die("send");
    return through_the_pipe(splice_by_call, file, place(at), out, -1);
}

static int by_ring_splice(unsigned at) {
    if (send(out, pieces[0], HEADER, MSG_MORE) != HEADER) die("send");
    return through_the_pipe(splice_by_ring, file, place(at), out, -1);
}

// From the socket to the page cache.

static int write_from(unsigned at) {
    if (pwrite(file, pieces[0] + HEADER, MESSAGE, place(at)) != MESSAGE) die("pwrite");
    return 0;
}

static int by_recv(unsigned at) {
    if (recv(in, pieces[0] + HEADER, MESSAGE, MSG_WAITALL) != MESSAGE) die("recv");
    return write_from(at);
}

static void receive_by_ring(void) {
    for (size_t done = 0; done < MESSAGE;) {
        struct io_uring_sqe *sqe = entry(IORING_OP_RECV, in, 0);
        sqe->addr = (uintptr_t)(pieces[0] + HEADER + done);
        sqe->len = (uint32_t)(MESSAGE - done);
        sqe->msg_flags = MSG_WAITALL;
        long n = result_of(1);
        if (n <= 0) failed("recv", n);
        done += (size_t)n;
    }
}

static int by_ring_recv(unsigned at) {
    receive_by_ring();
    return write_from(at);
}

static int by_ring_recv_and(uint8_t opcode, unsigned at) {
    receive_by_ring();
    struct io_uring_sqe *sqe = entry(opcode, file, 0);
    sqe->addr = (uintptr_t)(pieces[0] + HEADER);
    sqe->len = MESSAGE;
    sqe->off = (uint64_t)place(at);
    long written = result_of(1);
    return written == MESSAGE ? 0 : failed("write", written);
}

static int by_ring_recv_and_write(unsigned at) {
    return by_ring_recv_and(IORING_OP_WRITE, at);
}

static int by_ring_recv_and_write_fixed(unsigned at) {
    return by_ring_recv_and(IORING_OP_WRITE_FIXED, at);
}

static int by_splice_in(unsigned at) {
    return through_the_pipe(splice_by_call, in, -1, file, place(at));
}

static int by_ring_splice_in(unsigned at) {
    return through_the_pipe(splice_by_ring, in, -1, file, place(at));
}

static const struct {
    const char *name;
    int (*one)(unsigned at);
} ways[] = {
    {"read: sendfile", by_sendfile},
    {"read: pread, send", by_send},
    {"read: pread, ring SENDMSG", by_ring_sendmsg},
    {"read: pread, ring SENDMSG_ZC", by_ring_sendmsg_zc},
    {"read: registered buffers, ring READ_FIXED, SEND_ZC", by_registered_send_zc},
    {"read: splice through a pipe", by_splice},
    {"read: ring SPLICE through a pipe", by_ring_splice},
    {"write: recv, pwrite", by_recv},
    {"write: ring RECV, pwrite", by_ring_recv},
    {"write: ring RECV, WRITE", by_ring_recv_and_write},
    {"write: registered buffers, ring RECV, WRITE_FIXED", by_ring_recv_and_write_fixed},
    {"write: splice through a pipe", by_splice_in},
    {"write: ring SPLICE through a pipe", by_ring_splice_in},
};

static double microseconds(void) {
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0) die("getrusage");
    return 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static struct sockaddr_in address_of(char *const *words) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1]))};
    if (inet_pton(AF_INET, words[0], &address.sin_addr) != 1) die(words[0]);
    return address;
}

// A connection to the peer, which is told what it is for: 't'ake or 'g'ive.
static int connected(const struct sockaddr_in *to, char what) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) != 0) die("connect");
    if (send(fd, &what, 1, 0) != 1) die("send");
    return fd;
}

static void work(char *const *words) {
    struct sockaddr_in to = address_of(words);
    if (chdir(words[2]) != 0) die(words[2]);
    unsigned messages = (unsigned)atoi(words[3]), rounds = (unsigned)atoi(words[4]);
    file = open("bytes", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0) die("bytes");
    ring_begin();
    struct iovec registered[PIECES];
    for (int piece = 0; piece < PIECES; piece++) {
        pieces[piece] = mmap(NULL, HEADER + MESSAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (pieces[piece] == MAP_FAILED) die("mmap");
        registered[piece] = (struct iovec){pieces[piece], HEADER + MESSAGE};
    }
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, registered, PIECES) != 0) die("registered buffers");
    for (unsigned at = 0; at < FILE_MESSAGES; at++) write_from(at);
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, MESSAGE) < 0) die("pipe");
    pipe_out = ends[0], pipe_in = ends[1];
    out = connected(&to, 't'), in = connected(&to, 'g');
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            int lacking = ways[way].one(0);
            double before = microseconds();
            for (unsigned at = 1; at <= messages && lacking == 0; at++) lacking = ways[way].one(at);
            if (lacking != 0) printf("%s %s\n", strerrorname_np(lacking), ways[way].name);
            else printf("%.1f %s\n", (microseconds() - before) / messages, ways[way].name);
            fflush(stdout);
        }
    }
    unlink("bytes");
}

static void serve(int fd) {
    static char piece[1 << 18];
    char what;
    if (recv(fd, &what, 1, 0) != 1) exit(0);
    while ((what == 't' ? recv(fd, piece, sizeof piece, 0) : send(fd, piece, sizeof piece, MSG_NOSIGNAL)) > 0) {
    }
    exit(0);
}

static void peer(char *const *words) {
    struct sockaddr_in address = address_of(words);
    signal(SIGCHLD, SIG_IGN);
    int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) != 0 || listen(listening, 8) != 0) die("listen");
    puts("listening");
    fflush(stdout);
    for (;;) {
        int fd = accept(listening, NULL, NULL);
        if (fd < 0) die("accept");
        if (fork() == 0) serve(fd);
        close(fd);
    }
}

int main(int count, char **words) {
    if (count == 4 && strcmp(words[1], "peer") == 0) peer(words + 2);
    else if (count == 7 && strcmp(words[1], "work") == 0) work(words + 2);
    else {
        fputs("ways peer ADDRESS PORT | ways work ADDRESS PORT DIR MESSAGES ROUNDS\n", stderr);
        return 2;
    }
    return 0;
}
