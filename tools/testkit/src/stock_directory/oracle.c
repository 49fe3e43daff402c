/*
 * A directory in memory, edited and checked by OpenAFS's own code (libdir.a): a line of orders in, a line of answers out.
 * The declarations are those that the library's objects want; nothing of its headers is needed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 2048, PAGES = 1024 };

static char store[PAGES][PAGE];
static int pages;

/* What the library calls a directory is ours to choose; its buffers have room for a word of it. */
struct handle {
    int number;
};

extern void DInit(int buffers);
extern int DFlush(void);
extern void DZap(void *dir);
extern int afs_dir_MakeDir(void *dir, int *own, int *parent);
extern int afs_dir_Create(void *dir, char *name, void *fid);
extern int afs_dir_Delete(void *dir, char *name);
extern int afs_dir_Lookup(void *dir, char *name, void *fid);
extern int DirOK(void *dir);

int ReallyRead(struct handle *dir, int block, char *data, int *error)
{
    if (block >= pages)
	return 5;
    memcpy(data, store[block], PAGE);
    return 0;
}

int ReallyWrite(struct handle *dir, int block, char *data)
{
    if (block >= PAGES)
	return 5;
    memcpy(store[block], data, PAGE);
    if (block >= pages)
	pages = block + 1;
    return 0;
}

void FidZero(struct handle *dir) { dir->number = 0; }
void FidZap(struct handle *dir) { dir->number = 0; }
int FidEq(struct handle *one, struct handle *other) { return one->number == other->number; }
int FidVolEq(struct handle *dir, int volume) { return 0; }
void FidCpy(struct handle *to, struct handle *from) { to->number = from->number; }

/* One thread. */
void Lock_Init(void *lock) {}
void Afs_Lock_Obtain(void *lock, int how) {}
void Afs_Lock_ReleaseR(void *lock) {}
void Afs_Lock_ReleaseW(void *lock) {}

void Die(const char *why) { fprintf(stderr, "%s\n", why); exit(1); }
void Log(const char *format, ...) {}

void *__wrap_malloc(size_t size) { return calloc(1, size); }

static void name_of(const char *hex, char *name)
{
    unsigned byte;
    while (*hex && sscanf(hex, "%2x", &byte) == 1) {
	*name++ = (char)byte;
	hex += 2;
    }
    *name = 0;
}

int main(void)
{
    static char line[2048], hex[1024], name[512];
    struct handle dir = { 1 };
    unsigned a, b, c, d;

    /* More buffers than pages: none is used twice, so each begins with zeros. */
    DInit(2 * PAGES);
    while (fgets(line, sizeof line, stdin)) {
	int fid[3] = { 0, 0, 0 }, parent[3] = { 0, 0, 0 };
	if (sscanf(line, "begin %u %u %u %u", &a, &b, &c, &d) == 4) {
	    fid[1] = a, fid[2] = b, parent[1] = c, parent[2] = d;
	    printf("%d\n", afs_dir_MakeDir(&dir, fid, parent));
	} else if (sscanf(line, "add %1023s %u %u", hex, &a, &b) == 3) {
	    name_of(hex, name);
	    fid[1] = a, fid[2] = b;
	    printf("%d\n", afs_dir_Create(&dir, name, fid));
	} else if (sscanf(line, "remove %1023s", hex) == 1) {
	    name_of(hex, name);
	    printf("%d\n", afs_dir_Delete(&dir, name));
	} else if (sscanf(line, "lookup %1023s", hex) == 1) {
	    name_of(hex, name);
	    int code = afs_dir_Lookup(&dir, name, fid);
	    printf("%d\n", code ? 1 : 0);
	    if (!code)
		printf("%d\n%d\n", fid[1], fid[2]);
	} else if (strcmp(line, "bytes\n") == 0) {
	    DFlush();
	    printf("%d\n", pages * PAGE);
	    fwrite(store, PAGE, pages, stdout);
	} else if (sscanf(line, "load %u", &a) == 1) {
	    DZap(&dir);
	    pages = a / PAGE;
	    printf("%zu\n", fread(store, 1, a, stdin));
	} else if (strcmp(line, "check\n") == 0) {
	    printf("%d\n", DirOK(&dir));
	} else {
	    return 2;
	}
	fflush(stdout);
    }
    return 0;
}
