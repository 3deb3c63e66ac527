// A thread ends that owns robust futexes, one of them on a page that has become read-only:
// those before it are released, it and those behind it are not, and nobody is harmed.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "expect.h"

// The list's entries, each with its futex word 16 bytes further on.
struct entry {
    struct robust_list list;
    uint64_t padding;
    uint32_t word;
};

static struct entry before, behind;
static struct entry *read_only;
static struct robust_list_head head;

static void *own_and_end(void *unused) {
    uint32_t self = (uint32_t)gettid();
    head.list.next = &before.list;
    before.list.next = &read_only->list;
    read_only->list.next = &behind.list;
    behind.list.next = &head.list;
    head.futex_offset = 16;
    read_only->word = self;
    before.word = behind.word = self;
    EXPECT(mprotect(read_only, 4096, PROT_READ) == 0);
    EXPECT(syscall(SYS_set_robust_list, &head, sizeof head) == 0);
    return unused;
}

int main(void) {
    read_only = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, own_and_end, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    printf("%x %x %x\n", before.word & FUTEX_OWNER_DIED, read_only->word & FUTEX_OWNER_DIED,
           behind.word & FUTEX_OWNER_DIED);
    return 0;
}
