// Code that another thread of the program serves when it is first fetched (userfaultfd): page by
// page, by a thread that itself runs code which has not run before. The code goes over the pages'
// ends and from page to page.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "answer.h"
#include "expect.h"

#define PAGES 8
#define SIZE (PAGES * 4096ul)

static int server;
static unsigned char content[SIZE] __attribute__((aligned(4096)));
static unsigned char fresh[PAGES][4096] __attribute__((aligned(4096)));
static unsigned char *code;

static void *serve(void *nothing) {
    for (int served = 0; served < PAGES; served++) {
        struct uffd_msg message;
        EXPECT(read(server, &message, sizeof message) == sizeof message);
        unsigned long page = message.arg.pagefault.address & -4096ul;
        // Code that nobody has translated yet.
        write_answer(fresh[served], served);
        EXPECT(call(fresh[served]) == served);
        struct uffdio_copy copy = {
            .dst = page, .src = (unsigned long)content + (page - (unsigned long)code), .len = 4096};
        EXPECT(ioctl(server, UFFDIO_COPY, &copy) == 0);
    }
    return nothing;
}

int main(void) {
    server = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (server < 0) {
        puts("served");
        return 0;
    }
    struct uffdio_api api = {.api = UFFD_API};
    EXPECT(ioctl(server, UFFDIO_API, &api) == 0);
    EXPECT(mprotect(fresh, sizeof fresh, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    struct uffdio_register memory = {.range = {(unsigned long)code, SIZE},
                                     .mode = UFFDIO_REGISTER_MODE_MISSING};
    EXPECT(ioctl(server, UFFDIO_REGISTER, &memory) == 0);
    // Each page: nops, then at its end an instruction that reaches into the next one; every
    // other page ends in a jump to the next one instead. The last one returns.
    memset(content, 0x90, SIZE);
    for (int page = 0; page < PAGES - 1; page++) {
        unsigned char *end = content + (page + 1) * 4096;
        if (page % 2) {
            unsigned char jump[] = {0xeb, 0x00};
            memcpy(end - 2, jump, 2);
        } else {
            unsigned char move[] = {0xb8, page, 0, 0, 0};
            memcpy(end - 2, move, 5);
        }
    }
    write_answer(content + SIZE - 6, 77);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, serve, NULL) == 0);
    EXPECT(call(code) == 77);
    EXPECT(pthread_join(thread, NULL) == 0);
    puts("served");
    return 0;
}
