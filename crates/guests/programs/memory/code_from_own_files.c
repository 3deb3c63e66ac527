// Code in a file that a thread of the same program serves (FUSE): each of its pages is fetched
// when it first runs, by a thread that runs code of its own which has not run before. Where a
// program may not mount file systems, there is nothing to see.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "answer.h"
#include "expect.h"

#define PAGES 8
#define PAGE 4096ul
#define SIZE (PAGES * PAGE)

static int device;
static unsigned char content[SIZE];
static unsigned char fresh[PAGES * 4][PAGE] __attribute__((aligned(4096)));
static int served;
// Nobody waits for answers any more.
static atomic_int over;

static void reply(const struct fuse_in_header *request, int error, const void *data, size_t size) {
    static unsigned char answer[sizeof(struct fuse_out_header) + SIZE];
    struct fuse_out_header header = {
        .len = (unsigned)(sizeof header + size), .error = -error, .unique = request->unique};
    memcpy(answer, &header, sizeof header);
    if (size) memcpy(answer + sizeof header, data, size);
    EXPECT(write(device, answer, header.len) == (ssize_t)header.len || over);
}

static struct fuse_attr attributes(unsigned long node) {
    struct fuse_attr facts = {.ino = node, .nlink = 1, .blksize = PAGE};
    facts.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0755;
    facts.size = node == FUSE_ROOT_ID ? 0 : SIZE;
    return facts;
}

static void answer(const struct fuse_in_header *request) {
    const void *body = request + 1;
    switch (request->opcode) {
    case FUSE_INIT: {
        // Nothing is read ahead: each page is asked for.
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                    .minor = FUSE_KERNEL_MINOR_VERSION,
                                    .max_readahead = 0,
                                    .max_write = PAGE};
        return reply(request, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = {.nodeid = 2, .attr = attributes(2), .attr_valid = 1000,
                                     .entry_valid = 1000};
        return reply(request, 0, &out, sizeof out);
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr_valid = 1000, .attr = attributes(request->nodeid)};
        return reply(request, 0, &out, sizeof out);
    }
    case FUSE_OPEN: {
        struct fuse_open_out out = {.fh = 1};
        return reply(request, 0, &out, sizeof out);
    }
    case FUSE_READ: {
        const struct fuse_read_in *in = body;
        // Code that nobody has translated yet.
        if (served < PAGES * 4) {
            write_answer(fresh[served], served);
            EXPECT(call(fresh[served]) == served);
            served++;
        }
        EXPECT(in->offset < SIZE);
        size_t size = in->size < SIZE - in->offset ? in->size : SIZE - in->offset;
        return reply(request, 0, content + in->offset, size);
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        return;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
        return reply(request, 0, NULL, 0);
    default:
        return reply(request, ENOSYS, NULL, 0);
    }
}

static void *serve(void *nothing) {
    static union {
        struct fuse_in_header header;
        char bytes[1 << 16];
    } request;
    while (read(device, &request, sizeof request) > 0) answer(&request.header);
    return nothing;
}

int main(void) {
    char options[100];
    EXPECT(mkdir("served", 0755) == 0 || errno == EEXIST);
    device = open("/dev/fuse", O_RDWR);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (device < 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("guest", "served", "fuse", 0, options) != 0) {
        puts("no file system");
        return 0;
    }
    EXPECT(mprotect(fresh, sizeof fresh, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    for (int page = 0; page < PAGES; page++) write_answer(content + page * PAGE, 1000 + page);
    // An instruction over the end of a page.
    write_answer(content + 6 * PAGE - 3, 77);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, serve, NULL) == 0);
    int file = open("served/code", O_RDONLY);
    EXPECT(file >= 0);
    unsigned char *code = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    EXPECT(code != MAP_FAILED);
    for (int page = PAGES - 1; page >= 0; page--)
        if (page != 6) EXPECT(call(code + page * PAGE) == 1000 + page);
    EXPECT(call(code + 6 * PAGE - 3) == 77);
    over = 1;
    EXPECT(munmap(code, SIZE) == 0 && close(file) == 0);
    EXPECT(umount2("served", MNT_DETACH) == 0);
    EXPECT(pthread_join(thread, NULL) == 0 && close(device) == 0);
    puts("served");
    return 0;
}
