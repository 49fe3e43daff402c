/*
 * Stock clients of a file server: processes with the Rx and the RXAFS stubs of Debian's libopenafs-dev, each a host of its
 * own with a callback service, that fetch one file a chunk a call, or ask for its status, for some seconds.
 *
 *   load -s HOST -p PORT -c CLIENTS -D SECONDS -f VOLUME.VNODE.UNIQUIFIER -b CHUNK [-j]
 *
 * -b 0 asks for the status alone; -j sends and takes no jumbograms. What they did from when all were known to the server
 * is told as one line of JSON.
 */
#include <afs/param.h>
#include <afs/stds.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <rx/rx.h>
#include <rx/rx_null.h>
#include <afs/afsint.h>

enum { FILE_SERVICE = 1, CALLBACK_SERVICE = 1, FAILURES_TOLD = 3, FAILURES_MAX = 100 };
/* What a server calls of a client. */
enum {
    CALL_BACK = 204,
    INIT_CALL_BACK_STATE = 205,
    PROBE = 206,
    INIT_CALL_BACK_STATE3 = 213,
    PROBE_UUID = 214,
    TELL_ME_ABOUT_YOURSELF = 65538,
    NO_SUCH_CALL = -455
};
/* Of an answer about oneself: an identity by eleven words, no address out of room for 32 with mask and MTU, no capability. */
enum { IDENTITY_WORDS = 11, ADDRESS_WORDS = 1 + 3 * 32, CAPABILITY_WORDS = 1 };

static struct options {
    const char *host;
    int port, clients, seconds, chunk, no_jumbo;
    struct AFSFid fid;
} options = { "127.0.0.1", 7000, 1, 4, 1 << 20, 0, { 0, 0, 0 } };

/* What a client tells its parent, once. */
struct done {
    long long bytes, calls, failures;
    double cpu_s, seconds;
};

static void die(const char *what) {
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int give_word(struct rx_call *call, afs_uint32 word) {
    afs_int32 bytes = htonl(word);
    return rx_Write32(call, &bytes) == 4 ? 0 : -1;
}

static afs_int32 tell_about_myself(struct rx_call *call) {
    afs_uint32 pid = getpid();
    for (int word = 0; word < IDENTITY_WORDS + ADDRESS_WORDS + CAPABILITY_WORDS; word++) {
        /* The first words tell the clients of one machine apart. */
        afs_uint32 told = word == 0 ? pid * 2654435761u : word == 1 ? pid & 0xffff : word == 5 ? pid & 0x7f : 0;
        if (give_word(call, told)) return -1;
    }
    return 0;
}

/* Nothing is kept, so whatever the server takes back is nothing already. */
static afs_int32 hear(struct rx_call *call) {
    afs_int32 bytes;
    if (rx_Read32(call, &bytes) != 4) return -1;
    switch (ntohl(bytes)) {
    case TELL_ME_ABOUT_YOURSELF:
        return tell_about_myself(call);
    case CALL_BACK:
    case INIT_CALL_BACK_STATE:
    case INIT_CALL_BACK_STATE3:
    case PROBE:
    case PROBE_UUID:
        return 0;
    default:
        return NO_SUCH_CALL;
    }
}

static int ask_status(struct rx_connection *server) {
    struct AFSFetchStatus status;
    struct AFSCallBack promise;
    struct AFSVolSync sync;
    return RXAFS_FetchStatus(server, &options.fid, &status, &promise, &sync);
}

/* Fetches the chunk at `offset`; `came` is what there was of it. */
static int fetch(struct rx_connection *server, afs_int64 offset, char *room, struct done *done, long long *came) {
    struct AFSFetchStatus status;
    struct AFSCallBack promise;
    struct AFSVolSync sync;
    afs_int32 high = 0, low = 0;
    struct rx_call *call = rx_NewCall(server);
    int code = StartRXAFS_FetchData64(call, &options.fid, offset, options.chunk);
    *came = 0;
    if (!code && (rx_Read32(call, &high) != 4 || rx_Read32(call, &low) != 4)) code = -1;
    if (!code) {
        *came = (long long)ntohl(high) << 32 | (afs_uint32)ntohl(low);
        if (*came > options.chunk || rx_Read(call, room, *came) != *came) code = -1;
        else done->bytes += *came;
    }
    if (!code) code = EndRXAFS_FetchData64(call, &status, &promise, &sync);
    return rx_EndCall(call, code);
}

/* One client: says when the server knows it, waits for the start, and tells at the end what it did. */
static void be_client(int number, int ready, int start, int tell) {
    struct rx_securityClass *nobody = rxnull_NewClientSecurityObject(), *anybody = rxnull_NewServerSecurityObject();
    struct done done = { 0 };
    afs_int64 offset = 0;
    char *room = malloc(options.chunk + 1), byte = 0;
    double began, cpu_before;
    if (options.no_jumbo) rx_SetNoJumbo();
    if (rx_Init(0)) die("rx_Init failed");
    if (!rx_NewService(0, CALLBACK_SERVICE, "callback", &anybody, 1, hear)) die("rx_NewService failed");
    rx_StartServer(0);
    struct rx_connection *server =
        rx_NewConnection(inet_addr(options.host), htons(options.port), FILE_SERVICE, nobody, 0);
    int code = ask_status(server);
    if (code) {
        fprintf(stderr, "load: client %d: the first call failed: %d\n", number, code);
        _exit(1);
    }
    if (write(ready, &byte, 1) != 1) _exit(1);
    /* The pipe ends when all may start. */
    while (read(start, &byte, 1) > 0) {}
    began = now();
    cpu_before = cpu();
    while (now() < began + options.seconds && done.failures < FAILURES_MAX) {
        long long came = 0;
        code = options.chunk ? fetch(server, offset, room, &done, &came) : ask_status(server);
        offset = came < options.chunk ? 0 : offset + options.chunk;
        if (!code) done.calls++;
        else if (done.failures++ < FAILURES_TOLD) fprintf(stderr, "load: client %d: call failed: %d\n", number, code);
    }
    done.seconds = now() - began;
    done.cpu_s = cpu() - cpu_before;
    /* As clients do that end; else the server would call them for an hour. */
    RXAFS_GiveUpAllCallBacks(server);
    _exit(write(tell, &done, sizeof done) == sizeof done ? 0 : 1);
}

int main(int argc, char **argv) {
    int flag, ready[2], start[2], tell[2];
    while ((flag = getopt(argc, argv, "s:p:c:D:f:b:j")) != -1) {
        switch (flag) {
        case 's': options.host = optarg; break;
        case 'p': options.port = atoi(optarg); break;
        case 'c': options.clients = atoi(optarg); break;
        case 'D': options.seconds = atoi(optarg); break;
        case 'b': options.chunk = atoi(optarg); break;
        case 'j': options.no_jumbo = 1; break;
        case 'f':
            if (sscanf(optarg, "%u.%u.%u", &options.fid.Volume, &options.fid.Vnode, &options.fid.Unique) != 3)
                die("-f wants VOLUME.VNODE.UNIQUIFIER");
            break;
        default: exit(1);
        }
    }
    if (pipe(ready) || pipe(start) || pipe(tell)) die("no pipes");
    for (int number = 0; number < options.clients; number++) {
        pid_t child = fork();
        if (child < 0) die("no process");
        if (child == 0) {
            close(start[1]);
            close(ready[0]);
            be_client(number, ready[1], start[0], tell[1]);
        }
    }
    close(ready[1]);
    close(tell[1]);
    for (int known = 0; known < options.clients; known++) {
        char byte;
        if (read(ready[0], &byte, 1) != 1) die("a client did not get to the server");
    }
    close(start[1]);
    struct done sum = { 0 }, one;
    int count = 0;
    while (read(tell[0], &one, sizeof one) == sizeof one) {
        sum.bytes += one.bytes;
        sum.calls += one.calls;
        sum.failures += one.failures;
        sum.cpu_s += one.cpu_s;
        if (one.seconds > sum.seconds) sum.seconds = one.seconds;
        count++;
    }
    while (wait(NULL) > 0) {}
    if (count != options.clients) die("a client ended early");
    printf("{\"clients\":%d,\"bytes\":%lld,\"calls\":%lld,\"failures\":%lld,\"seconds\":%.6f,\"cpu_s\":%.6f}\n", count,
           sum.bytes, sum.calls, sum.failures, sum.seconds, sum.cpu_s);
    return sum.failures > 0;
}
