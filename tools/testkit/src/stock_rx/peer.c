/*
 * A client and a server of rxperf's protocol, version 3, over the stock Rx library of Debian's libopenafs-dev. It is
 * run as the stock tool is run, with as many of its flags as the tests use; rxperf/src/lib.rs tells the protocol.
 *
 *   peer client -s HOST -p PORT -c recv|send|rpc|file -b BYTES -S SEND -R RECEIVE -f FILE -t THREADS -T TIMES
 *   peer server -p PORT -S THREADS
 *
 * The client alone: -D SECONDS, calls one after another for that long; what it did and counted is told as JSON then.
 * Both: -r, -w bytes of each read and write; -W window, packets; -m largest packet, bytes; -j no jumbograms; -V by iovec.
 */
#include <afs/param.h>
#include <afs/stds.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <rx/rx.h>
#include <rx/rx_null.h>

enum { VERSION = 3, SERVICE = 147, COOKIE = 0x4711, CHUNK_MAX = 512 * 1024, STEPS_MAX = 16 * 1024 };
enum { SEND = 0, RECEIVE = 1, RPC = 3, STEPS = 4 };
/* Places of the packet types in the library's counts. */
enum { COUNT_OF_DATA = 0, COUNT_OF_ACKS = 1 };

static struct options {
    const char *host, *mode, *file;
    int port, bytes, send, receive, threads, times, read_chunk, write_chunk, window, packet, no_jumbo, iovec,
        seconds;
} options = { "127.0.0.1", "recv", NULL, 7009, 1 << 20, 1 << 20, 1 << 20, 0, 1, CHUNK_MAX, CHUNK_MAX, 0, 0, 0, 0, 0 };

static void die(const char *what) {
    fprintf(stderr, "peer: %s\n", what);
    exit(1);
}

/* Moves `len` bytes by `chunk`; the payload is zeros. Returns 0, or -1 when the call has failed. */
static int give(struct rx_call *call, long long len, int chunk) {
    static const char zeros[CHUNK_MAX];
    while (len > 0) {
        int want = len < chunk ? (int)len : chunk, got = 0;
        if (options.iovec) {
            struct iovec parts[RX_MAXIOVECS];
            int count = 0;
            got = rx_WritevAlloc(call, parts, &count, RX_MAXIOVECS, want);
            if (got <= 0) return -1;
            for (int i = 0; i < count; i++) memset(parts[i].iov_base, 0, parts[i].iov_len);
            if (rx_Writev(call, parts, count, got) != got) return -1;
        } else {
            got = rx_Write(call, (char *)zeros, want);
            if (got != want) return -1;
        }
        len -= got;
    }
    return 0;
}

static int take(struct rx_call *call, long long len, int chunk) {
    char *buffer = malloc(chunk);
    int code = 0;
    while (len > 0 && !code) {
        int want = len < chunk ? (int)len : chunk, got = 0;
        if (options.iovec) {
            struct iovec parts[RX_MAXIOVECS];
            int count = 0;
            got = rx_Readv(call, parts, &count, RX_MAXIOVECS, want);
        } else {
            got = rx_Read(call, buffer, want);
        }
        if (got <= 0) code = -1;
        else len -= got;
    }
    free(buffer);
    return code;
}

static int give_word(struct rx_call *call, afs_uint32 word) {
    afs_int32 bytes = htonl(word);
    return rx_Write32(call, &bytes) == 4 ? 0 : -1;
}

static int take_word(struct rx_call *call, afs_uint32 *word) {
    afs_int32 bytes;
    if (rx_Read32(call, &bytes) != 4) return -1;
    *word = ntohl(bytes);
    return 0;
}

/* Follows a list of steps: words one way until a 0, then words the other way. */
static int follow(struct rx_call *call, const afs_uint32 *steps, int count, int gives) {
    for (int i = 0; i < count; i++) {
        if (steps[i] == 0) {
            gives = !gives;
        } else if (gives ? give(call, 4LL * steps[i], options.write_chunk) : take(call, 4LL * steps[i], options.read_chunk)) {
            return -1;
        }
    }
    return 0;
}

/* Server. */

static afs_int32 serve_steps(struct rx_call *call) {
    afs_uint32 count, *steps;
    int code = 0;
    if (take_word(call, &count) || count > STEPS_MAX) return -1;
    steps = calloc(count + 1, sizeof *steps);
    for (afs_uint32 i = 0; i < count && !code; i++) code = take_word(call, &steps[i]);
    if (!code) code = follow(call, steps, count, 0);
    free(steps);
    return code;
}

static afs_int32 serve(struct rx_call *call) {
    afs_uint32 version, command, read_chunk, write_chunk, in = 0, out = 0;
    if (take_word(call, &version) || version != VERSION || take_word(call, &command)) return -1;
    if (take_word(call, &read_chunk) || take_word(call, &write_chunk)) return -1;
    if (read_chunk > CHUNK_MAX || write_chunk > CHUNK_MAX) return -1;
    switch (command) {
    case SEND:
        if (take_word(call, &in)) return -1;
        break;
    case RECEIVE:
        if (take_word(call, &out)) return -1;
        break;
    case RPC:
        if (take_word(call, &in) || take_word(call, &out)) return -1;
        break;
    case STEPS:
        return serve_steps(call);
    default:
        return -1;
    }
    if (take(call, in, read_chunk) || give(call, out, write_chunk)) return -1;
    return give_word(call, COOKIE);
}

static void be_server(void) {
    struct rx_securityClass *null_class = rxnull_NewServerSecurityObject();
    struct rx_service *service = rx_NewService(0, SERVICE, "rxperf", &null_class, 1, serve);
    if (!service) die("rx_NewService failed");
    rx_SetMinProcs(service, 2);
    rx_SetMaxProcs(service, options.threads ? options.threads : 100);
    rx_StartServer(0);
    for (;;) pause();
}

/* Client. */

static afs_uint32 steps[STEPS_MAX];
static int step_count;
static pthread_mutex_t failed_lock = PTHREAD_MUTEX_INITIALIZER;
static int failed;

static void read_steps(void) {
    char line[64];
    FILE *file = options.file ? fopen(options.file, "r") : NULL;
    if (!file) die("-c file needs -f FILE");
    while (step_count < STEPS_MAX && fgets(line, sizeof line, file)) steps[step_count++] = strtoul(line, NULL, 0);
    fclose(file);
}

static int ask(struct rx_call *call) {
    int command = !strcmp(options.mode, "send") ? SEND : !strcmp(options.mode, "recv") ? RECEIVE
                : !strcmp(options.mode, "rpc") ? RPC : STEPS;
    int in = command == SEND ? options.bytes : options.send, out = command == RECEIVE ? options.bytes : options.receive;
    afs_uint32 cookie;
    if (give_word(call, VERSION) || give_word(call, command)) return -1;
    if (give_word(call, options.read_chunk) || give_word(call, options.write_chunk)) return -1;
    if (command == STEPS) {
        if (give_word(call, step_count)) return -1;
        for (int i = 0; i < step_count; i++)
            if (give_word(call, steps[i])) return -1;
        return follow(call, steps, step_count, 1);
    }
    if (command != RECEIVE && give_word(call, in)) return -1;
    if (command != SEND && give_word(call, out)) return -1;
    if (command != RECEIVE && give(call, in, options.write_chunk)) return -1;
    if (command != SEND && take(call, out, options.read_chunk)) return -1;
    return take_word(call, &cookie) || cookie != COOKIE ? -1 : 0;
}

static double began;
static long long calls_done;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void *be_client_thread(void *connection) {
    for (int i = 0; options.seconds ? now() < began + options.seconds : i < options.times; i++) {
        struct rx_call *call = rx_NewCall(connection);
        int asked = ask(call), code = rx_EndCall(call, asked);
        if (asked || code) {
            pthread_mutex_lock(&failed_lock);
            fprintf(stderr, "peer: call failed: %d\n", code);
            failed = 1;
            pthread_mutex_unlock(&failed_lock);
        } else {
            __atomic_add_fetch(&calls_done, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

/* What a run of a given time came to: processor time is the process's, the counts are the Rx library's. */
static void tell(double seconds) {
    struct rusage usage;
    struct rx_statistics *counts = rx_GetStatistics();
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"calls\":%lld,\"seconds\":%.6f,\"cpu_s\":%.6f,\"acks_sent\":%d,\"data_sent\":%d,\"data_resent\":%d,"
           "\"data_read\":%d,\"duplicates_read\":%d,\"datagrams_read\":%d}\n",
           calls_done, seconds,
           usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
           counts->packetsSent[COUNT_OF_ACKS], counts->dataPacketsSent, counts->dataPacketsReSent,
           counts->dataPacketsRead, counts->dupPacketsRead, counts->packetsRead[COUNT_OF_DATA]);
}

static void be_client(void) {
    int count = options.threads ? options.threads : 1;
    pthread_t *threads = calloc(count, sizeof *threads);
    struct rx_securityClass *null_class = rxnull_NewClientSecurityObject();
    struct rx_connection *connection = NULL;
    if (!strcmp(options.mode, "file")) read_steps();
    began = now();
    for (int i = 0; i < count; i++) {
        if (i % RX_MAXCALLS == 0)
            connection = rx_NewConnection(inet_addr(options.host), htons(options.port), SERVICE, null_class, 0);
        if (pthread_create(&threads[i], NULL, be_client_thread, connection)) die("no thread");
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    if (failed) exit(1);
    if (options.seconds)
        tell(now() - began);
    else if (!strcmp(options.mode, "rpc"))
        printf("RPC: threads\t%d, times\t%d, write bytes\t%d, read bytes\t%d:\n", count, options.times, options.send,
               options.receive);
    else if (!strcmp(options.mode, "file"))
        printf("FILE %s: threads\t%d, times\t%d, bytes\t%d:\n", options.file, count, options.times, options.bytes);
    else
        printf("%s: threads\t%d, times\t%d, bytes\t%d:\n", !strcmp(options.mode, "recv") ? "RECV" : "SEND", count,
               options.times, options.bytes);
    fflush(stdout);
    /* As the stock tool does: rx_Finalize would send what the last call still owes. */
    _exit(0);
}

int main(int argc, char **argv) {
    int flag, is_server = argc > 1 && !strcmp(argv[1], "server");
    if (argc < 2) die("client or server?");
    optind = 2;
    while ((flag = getopt(argc, argv, is_server ? "p:S:r:w:W:m:jV" : "s:p:c:b:S:R:f:t:T:D:r:w:W:m:jV")) != -1) {
        switch (flag) {
        case 's': options.host = optarg; break;
        case 'p': options.port = atoi(optarg); break;
        case 'c': options.mode = optarg; break;
        case 'b': options.bytes = atoi(optarg); break;
        case 'S': *(is_server ? &options.threads : &options.send) = atoi(optarg); break;
        case 'R': options.receive = atoi(optarg); break;
        case 'f': options.file = optarg; break;
        case 't': options.threads = atoi(optarg); break;
        case 'D': options.seconds = atoi(optarg); break;
        case 'T': options.times = atoi(optarg); break;
        case 'r': options.read_chunk = atoi(optarg); break;
        case 'w': options.write_chunk = atoi(optarg); break;
        case 'W': options.window = atoi(optarg); break;
        case 'm': options.packet = atoi(optarg); break;
        case 'j': options.no_jumbo = 1; break;
        case 'V': options.iovec = 1; break;
        default: exit(1);
        }
    }
    if (options.no_jumbo) rx_SetNoJumbo();
    if (options.packet) rx_SetMaxMTU(options.packet);
    if (options.window) {
        rx_SetMaxReceiveWindow(options.window);
        rx_SetMaxSendWindow(options.window);
    }
    if (rx_Init(is_server ? htons(options.port) : 0)) die("rx_Init failed");
    if (is_server) be_server();
    be_client();
}
