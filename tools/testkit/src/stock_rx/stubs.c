/*
 * A client and a server of rxgen/tests/xg/files.xg by the stubs that the stock rxgen makes of it, over the stock Rx
 * library: the other end of ours. Stored data of file N are bytes (at * 31 + N), so both ends can check them.
 *
 *   stubs client PORT    runs every procedure against the server at 127.0.0.1; says what differs
 *   stubs server PORT    keeps files in memory
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "files.h"
#include <rx/rx_null.h>

enum { SERVICE = 77, NO_SUCH_FILE = 2, FORBIDDEN = 13, FILES_MAX = 64, CHUNK = 7777 };
int SFILES_ExecuteRequest(struct rx_call *call);

static void die(const char *what, long got, long wanted) {
    fprintf(stderr, "stubs: %s: %ld, not %ld\n", what, got, wanted);
    exit(1);
}

static void same(const char *what, long got, long wanted) {
    if (got != wanted) die(what, got, wanted);
}

static char *content(int vnode, int len) {
    char *bytes = malloc(len + 1);
    for (int at = 0; at < len; at++) bytes[at] = (char)(at * 31 + vnode);
    return bytes;
}

/* Client. */

static struct rx_connection *connection;

static Fid fid_of(int vnode) {
    Fid fid = { 1, vnode, 9 };
    return fid;
}

static void status_is(int vnode, int code, int len) {
    Fid fid = fid_of(vnode);
    Status status;
    CallBack callBack;
    memset(&status, 0, sizeof status);
    same("FetchStatus", FILES_FetchStatus(connection, &fid, &status, &callBack), code);
    if (!code) same("length of FetchStatus", status.Length, len);
}

/* The reason stands between the parameters, so with its length all that follows moves against the packets' borders. */
static void store(int vnode, int len, char *reason, int code) {
    Fid fid = fid_of(vnode);
    StoreStatus in = { 1, 2, 0644 };
    Status out;
    char *bytes = content(vnode, len);
    int sent = 0, result;
    struct rx_call *call = rx_NewCall(connection);
    memset(&out, 0, sizeof out);
    result = StartFILES_StoreData64(call, &fid, &in, reason, 0, len, len);
    while (!result && sent < len) {
        int want = len - sent < CHUNK ? len - sent : CHUNK;
        if (rx_Write(call, bytes + sent, want) != want) break;
        sent += want;
    }
    if (!result) result = EndFILES_StoreData64(call, &out);
    result = rx_EndCall(call, result);
    same("StoreData64", result, code);
    if (!code) same("length of StoreData64", out.Length, len);
    free(bytes);
}

static void fetch(int vnode, int code, int len) {
    Fid fid = fid_of(vnode);
    Status status;
    CallBack callBack;
    afs_uint32 words[2] = { 0, 0 };
    char *wanted = content(vnode, len), *bytes = malloc(len + 1);
    int got = 0, result;
    struct rx_call *call = rx_NewCall(connection);
    memset(&status, 0, sizeof status);
    result = StartFILES_FetchData64(call, &fid, 0, 0x7fffffffffffffffLL);
    if (!result && rx_Read(call, (char *)words, 8) == 8) {
        same("length before the data", ntohl(words[1]), len);
        while (got < len) {
            int want = len - got < CHUNK ? len - got : CHUNK, part = rx_Read(call, bytes + got, want);
            if (part <= 0) break;
            got += part;
        }
        result = EndFILES_FetchData64(call, &status, &callBack);
    } else {
        result = -1;
    }
    result = rx_EndCall(call, result);
    same("FetchData64", result, code);
    if (!code) {
        same("bytes of FetchData64", got, len);
        same("data differ", memcmp(bytes, wanted, len), 0);
        same("length behind the data", status.Length, len);
        same("call-back behind the data", callBack.Expires, 60);
    }
    free(wanted);
    free(bytes);
}

static void plain_procedures(void) {
    Fid dir = fid_of(1), made, fids[FIDS_MAX];
    StoreStatus in = { 1, 2, 0644 };
    Status status;
    CallBack callBack;
    char *path[] = { "a", "bcdef", "" };
    Names names = { 3, path };
    Fids asked = { FIDS_MAX, fids };
    Statuses statuses = { 0, NULL };
    CallBacks callBacks = { 0, NULL };
    Words words = { 0, NULL };
    char long_name[NAME_MAX + 1];
    memset(long_name, 'n', NAME_MAX);
    long_name[NAME_MAX] = 0;
    same("CreateFile", FILES_CreateFile(connection, &dir, long_name, &in, &made, &status, &callBack), 0);
    same("vnode by CreateFile", made.Vnode, NAME_MAX);
    same("mode by CreateFile", status.UnixModeBits, 0644);
    same("Lookup", FILES_Lookup(connection, &dir, &names, &made), 0);
    same("vnode by Lookup", made.Vnode, 3 * 1000 + 6);
    for (int at = 0; at < FIDS_MAX; at++) fids[at] = fid_of(at);
    same("InlineBulkStatus", FILES_InlineBulkStatus(connection, &asked, &statuses, &callBacks), 0);
    same("statuses", statuses.Statuses_len, FIDS_MAX);
    same("length of the sixth", statuses.Statuses_val[5].Length, 100000);
    same("call-backs", callBacks.CallBacks_len, FIDS_MAX);
    same("GetCapabilities", FILES_GetCapabilities(connection, &words), 0);
    same("capabilities", words.Words_len, WORDS_MAX);
    same("the last of them", words.Words_val[WORDS_MAX - 1], WORDS_MAX - 1);
    same("GiveUpAllCallBacks, which nobody serves", FILES_GiveUpAllCallBacks(connection), RXGEN_OPCODE);
}

/* Requests that no stub makes. */
static void broken(const afs_uint32 *words, int count, int code) {
    struct rx_call *call = rx_NewCall(connection);
    char byte;
    for (int at = 0; at < count; at++) {
        afs_int32 word = htonl(words[at]);
        rx_Write32(call, &word);
    }
    rx_Read(call, &byte, 1);
    same("a broken request", rx_EndCall(call, 0), code);
}

static void be_client(int port) {
    static const int sizes[] = { 0, 1, 3, 1300, 1340, 1350, 1360, 1411, 1412, 1413, 2824, 65535, 1000003, 100000 };
    static const afs_uint32 unknown[] = { 999 }, cut_short[] = { 132, 1, 2 }, too_long[] = { 161, 1, 2, 3, 0x7fffffff };
    char reason[NAME_MAX + 1];
    connection = rx_NewConnection(htonl(INADDR_LOOPBACK), htons(port), SERVICE, rxnull_NewClientSecurityObject(), 0);
    status_is(5, NO_SUCH_FILE, 0);
    for (unsigned at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        memset(reason, 'r', sizeof reason);
        reason[at * 19 % NAME_MAX] = 0;
        store(5, sizes[at], reason, 0);
        status_is(5, 0, sizes[at]);
        fetch(5, 0, sizes[at]);
    }
    store(7, 0, "forbidden", FORBIDDEN);
    store(7, 300000, "forbidden", FORBIDDEN);
    fetch(7, NO_SUCH_FILE, 0);
    plain_procedures();
    broken(unknown, 1, RXGEN_OPCODE);
    broken(cut_short, 3, RXGEN_SS_UNMARSHAL);
    broken(too_long, 5, RXGEN_SS_UNMARSHAL);
    printf("all is as it should be\n");
    fflush(stdout);
    /* rx_Finalize would send what the last call still owes. */
    _exit(0);
}

/* Server. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file {
    char *bytes;
    afs_uint64 len;
} files[FILES_MAX];

static int status_of(Fid *fid, Status *status) {
    int code = NO_SUCH_FILE;
    memset(status, 0, sizeof *status);
    pthread_mutex_lock(&lock);
    if (fid->Vnode < FILES_MAX && files[fid->Vnode].bytes) {
        status->Length = files[fid->Vnode].len;
        code = 0;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

afs_int32 SFILES_FetchStatus(struct rx_call *call, Fid *fid, Status *out, CallBack *callBack) {
    memset(callBack, 0, sizeof *callBack);
    return status_of(fid, out);
}

afs_int32 SFILES_FetchData64(struct rx_call *call, Fid *fid, afs_int64 pos, afs_int64 length, Status *out,
                             CallBack *callBack) {
    afs_uint32 words[2] = { 0, 0 };
    int code = status_of(fid, out), len = out->Length;
    memset(callBack, 0, sizeof *callBack);
    callBack->Expires = 60;
    if (code) return code;
    words[1] = htonl(len);
    if (rx_Write(call, (char *)words, 8) != 8) return -1;
    return rx_Write(call, files[fid->Vnode].bytes, len) == len ? 0 : -1;
}

afs_int32 SFILES_StoreData64(struct rx_call *call, Fid *fid, StoreStatus *in, char *reason, afs_uint64 pos,
                             afs_uint64 length, afs_uint64 file_length, Status *out) {
    char *bytes;
    if (!strcmp(reason, "forbidden")) return FORBIDDEN;
    if (fid->Vnode >= FILES_MAX || length > 64 << 20) return NO_SUCH_FILE;
    bytes = malloc(length + 1);
    if (rx_Read(call, bytes, length) != (int)length) return -1;
    pthread_mutex_lock(&lock);
    free(files[fid->Vnode].bytes);
    files[fid->Vnode].bytes = bytes;
    files[fid->Vnode].len = length;
    pthread_mutex_unlock(&lock);
    return status_of(fid, out);
}

afs_int32 SFILES_CreateFile(struct rx_call *call, Fid *dir, char *name, StoreStatus *in, Fid *fid, Status *status,
                            CallBack *callBack) {
    *fid = *dir;
    fid->Vnode = strlen(name);
    memset(status, 0, sizeof *status);
    status->UnixModeBits = in->UnixModeBits;
    memset(callBack, 0, sizeof *callBack);
    return 0;
}

afs_int32 SFILES_Lookup(struct rx_call *call, Fid *dir, Names *path, Fid *fid) {
    *fid = *dir;
    fid->Vnode = path->Names_len * 1000;
    for (unsigned at = 0; at < path->Names_len; at++) fid->Vnode += strlen(path->Names_val[at]);
    return 0;
}

afs_int32 SFILES_InlineBulkStatus(struct rx_call *call, Fids *fids, Statuses *statuses, CallBacks *callBacks) {
    statuses->Statuses_len = callBacks->CallBacks_len = fids->Fids_len;
    statuses->Statuses_val = calloc(fids->Fids_len, sizeof(Status));
    callBacks->CallBacks_val = calloc(fids->Fids_len, sizeof(CallBack));
    for (unsigned at = 0; at < fids->Fids_len; at++) status_of(&fids->Fids_val[at], &statuses->Statuses_val[at]);
    return 0;
}

afs_int32 SFILES_GetCapabilities(struct rx_call *call, Words *words) {
    words->Words_len = WORDS_MAX;
    words->Words_val = calloc(WORDS_MAX, sizeof(afs_uint32));
    for (int at = 0; at < WORDS_MAX; at++) words->Words_val[at] = at;
    return 0;
}

afs_int32 SFILES_GiveUpAllCallBacks(struct rx_call *call) {
    return RXGEN_OPCODE;
}

static void be_server(void) {
    struct rx_securityClass *null_class = rxnull_NewServerSecurityObject();
    if (!rx_NewService(0, SERVICE, "files", &null_class, 1, SFILES_ExecuteRequest)) die("rx_NewService", 0, 1);
    rx_StartServer(0);
    for (;;) pause();
}

int main(int argc, char **argv) {
    int is_server = argc == 3 && !strcmp(argv[1], "server"), port = argc == 3 ? atoi(argv[2]) : 0;
    if (argc != 3) die("client or server, and a port?", argc, 3);
    if (rx_Init(is_server ? htons(port) : 0)) die("rx_Init", 1, 0);
    if (is_server) be_server();
    be_client(port);
}
