/*
 * Reads, writes, cuts, extends and maps one file at random, as fsx does, and compares it all the time with what it must hold.
 *
 *     fsx FILE SEED SECONDS COPY [unmapped]
 *
 * At its end the file is durable, and COPY holds what it must hold.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH_MAX = 300000, PIECE_MAX = 70000, STEPS_TOLD = 60, LINE = 100 };

static unsigned char good[LENGTH_MAX], found[LENGTH_MAX];
static off_t length;
static char steps[STEPS_TOLD][LINE];
static unsigned long step;
static unsigned long long state;
static const char *path;
static int file;

static void fail(const char *why, ...)
{
    va_list args;
    unsigned long first = step > STEPS_TOLD ? step - STEPS_TOLD : 0;
    for (unsigned long told = first; told < step; told++)
        fprintf(stderr, "%lu: %s\n", told, steps[told % STEPS_TOLD]);
    va_start(args, why);
    vfprintf(stderr, why, args);
    va_end(args);
    fprintf(stderr, " (%s)\n", strerror(errno));
    exit(1);
}

static void tell(const char *what, ...)
{
    va_list args;
    va_start(args, what);
    vsnprintf(steps[step++ % STEPS_TOLD], LINE, what, args);
    va_end(args);
}

/* splitmix64 */
static unsigned long long any(unsigned long long below)
{
    unsigned long long z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % below;
}

static void compare(off_t at, size_t len, const char *how)
{
    for (size_t i = 0; i < len; i++)
        if (found[i] != good[at + i])
            fail("%s at %lld: 0x%02x instead of 0x%02x", how, (long long)at + i, found[i], good[at + i]);
}

static void read_some(void)
{
    off_t at = any(length + 1);
    size_t len = 1 + any(PIECE_MAX), there = len;
    if ((off_t)len > length - at)
        there = length - at;
    tell("read %zu at %lld", len, (long long)at);
    ssize_t got = pread(file, found, len < LENGTH_MAX ? len : LENGTH_MAX, at);
    if (got != (ssize_t)there)
        fail("read %zd bytes instead of %zu", got, there);
    compare(at, there, "read");
}

/* What is written lies in `good`; what was beyond the end before is zero. */
static size_t piece(off_t *at)
{
    *at = any(LENGTH_MAX - 1);
    size_t len = 1 + any(PIECE_MAX);
    if (*at + (off_t)len > LENGTH_MAX)
        len = LENGTH_MAX - *at;
    return len;
}

static void fill(off_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        good[at + i] = any(256);
}

static void write_some(void)
{
    off_t at;
    size_t len = piece(&at);
    tell("write %zu at %lld", len, (long long)at);
    fill(at, len);
    if (pwrite(file, good + at, len, at) != (ssize_t)len)
        fail("write");
    if (at + (off_t)len > length)
        length = at + len;
}

static void set_length(void)
{
    off_t to = any(LENGTH_MAX);
    tell("length %lld", (long long)to);
    if (ftruncate(file, to) != 0)
        fail("ftruncate");
    if (to < length)
        memset(good + to, 0, length - to);
    length = to;
}

static void map_some(int writes)
{
    if (length == 0)
        return;
    off_t at = any(length), page = at & ~4095LL;
    size_t len = 1 + any(PIECE_MAX);
    if (at + (off_t)len > length)
        len = length - at;
    tell("map for %s %zu at %lld", writes ? "writing" : "reading", len, (long long)at);
    int rights = writes ? PROT_READ | PROT_WRITE : PROT_READ;
    unsigned char *map = mmap(NULL, len + (at - page), rights, MAP_SHARED, file, page);
    if (map == MAP_FAILED)
        fail("mmap");
    if (writes) {
        fill(at, len);
        memcpy(map + (at - page), good + at, len);
        if (any(2) && msync(map, len + (at - page), MS_SYNC) != 0)
            fail("msync");
    } else {
        memcpy(found, map + (at - page), len);
        compare(at, len, "mapped");
    }
    munmap(map, len + (at - page));
}

static void no_page(int signal)
{
    (void)signal;
    struct stat attributes = {0};
    fstat(file, &attributes);
    fail("no page of a mapping: the file is %lld bytes long, and %lld are right", (long long)attributes.st_size,
         (long long)length);
}

static void look_at_all(void)
{
    struct stat attributes;
    tell("compare all");
    if (fstat(file, &attributes) != 0 || attributes.st_size != length)
        fail("%lld bytes instead of %lld", (long long)attributes.st_size, (long long)length);
    if (pread(file, found, LENGTH_MAX, 0) != length)
        fail("read of all");
    compare(0, length, "all");
}

static void open_again(void)
{
    tell("close and open");
    if (close(file) != 0)
        fail("close");
    file = open(path, O_RDWR);
    if (file < 0)
        fail("open");
}

static void forget(void)
{
    tell("sync and forget pages");
    if (fsync(file) != 0)
        fail("fsync");
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

int main(int count, char **args)
{
    if (count != 6 && count != 7)
        return 2;
    /* The last ones map. */
    int choices = count == 7 ? 12 : 16;
    signal(SIGBUS, no_page);
    path = args[1];
    state = strtoull(args[2], NULL, 10);
    time_t end = time(NULL) + atol(args[3]);
    unsigned long most = strtoul(args[4], NULL, 10);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0)
        fail("open");
    while (time(NULL) < end && step < most) {
        switch (any(choices)) {
        case 0: case 1: case 2: case 3: read_some(); break;
        case 4: case 5: case 6: case 7: write_some(); break;
        case 8: set_length(); break;
        case 9: look_at_all(); break;
        case 10: open_again(); break;
        case 11: forget(); break;
        case 12: case 13: map_some(0); break;
        case 14: case 15: map_some(1); break;
        }
    }
    look_at_all();
    if (fsync(file) != 0)
        fail("fsync");
    FILE *copy = fopen(args[5], "w");
    if (!copy || fwrite(good, 1, length, copy) != (size_t)length || fclose(copy) != 0)
        fail("copy");
    printf("%lu\n", step);
    return 0;
}
