// Threads with names, mappings at addresses that the program chooses, annotations, and system calls
// that read and write memory: each line says what an observer is to be told.
// flags: -O1 -D_GNU_SOURCE -pthread
// compare: status
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "expect.h"
#include "unspool.h"

enum { PAGE = 4096 };
static char *const here = (char *)0x100000000000, *const there = (char *)0x100100000000;

static void thread_said(const char *name)
{
    char local;
    printf("thread id %d at %lx stack %lx name %s\n", (int)syscall(SYS_gettid),
           (long)pthread_self(), (long)&local, name);
    fflush(stdout);
}

static void *second(void *unused)
{
    pthread_setname_np(pthread_self(), "second one");
    thread_said("second one");
    return unused;
}

static void *first(void *unused)
{
    pthread_t thread;
    unspool_register_thread(-5, "the fifth");
    puts("annotated -5 the fifth");
    pthread_setname_np(pthread_self(), "first one");
    EXPECT(pthread_create(&thread, 0, second, 0) == 0);
    EXPECT(pthread_join(thread, 0) == 0);
    thread_said("first one");
    return unused;
}

static void mapping(char *start, long pages, const char *now)
{
    printf("mapping %lx %lx:%s\n", (long)start, (long)start + pages * PAGE, now);
}

static void mappings(void)
{
    int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    EXPECT(mmap(here, 4 * PAGE - 7, PROT_READ | PROT_WRITE, fixed, -1, 0) == here);
    mapping(here, 4, " 100000000000 100000004000 rw-");
    EXPECT(mmap(here, PAGE, PROT_READ, fixed, -1, 0) == MAP_FAILED);
    EXPECT(mprotect(here + PAGE, PAGE, PROT_READ) == 0);
    mapping(here + PAGE, 1, " 100000001000 100000002000 r--");
    EXPECT(munmap(here + 2 * PAGE, PAGE) == 0);
    mapping(here + 2 * PAGE, 1, "");
    EXPECT(mremap(here + 3 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
    mapping(here + 3 * PAGE, 1, "");
    mapping(there, 2, " 100100000000 100100002000 rw-");
    int id = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
    EXPECT(id >= 0);
    EXPECT(shmat(id, there + 16 * PAGE, 0) == there + 16 * PAGE);
    mapping(there + 16 * PAGE, 2, " 100100010000 100100012000 rw-");
    EXPECT(shmdt(there + 16 * PAGE) == 0);
    mapping(there + 16 * PAGE, 2, "");
    shmctl(id, IPC_RMID, 0);
}

static void calls(void)
{
    int ends[2];
    char *text = there, *copy = there + PAGE;
    struct iovec *parts = (struct iovec *)(there + 256);
    EXPECT(pipe(ends) == 0);
    memcpy(text, "abcdefgh", 8);
    EXPECT(write(ends[1], text, 5) == 5);
    printf("kernel read %lx 5\n", (long)text);
    EXPECT(read(ends[0], copy, 100) == 5);
    printf("kernel write %lx 5\n", (long)copy);
    EXPECT(read(-1, copy, 100) == -1);
    parts[0] = (struct iovec){text, 3}, parts[1] = (struct iovec){text + 4, 4};
    EXPECT(writev(ends[1], parts, 2) == 7);
    printf("kernel read %lx 32\n", (long)parts);
    printf("kernel read %lx 3\n", (long)text);
    printf("kernel read %lx 4\n", (long)text + 4);
    EXPECT(uname((void *)copy) == 0);
    printf("kernel write %lx 390\n", (long)copy);
}

int main(void)
{
    pthread_t thread;
    setvbuf(stdout, 0, _IOLBF, 0);
    unspool_start_region();
    puts("region starts");
    EXPECT(pthread_create(&thread, 0, first, 0) == 0);
    EXPECT(pthread_join(thread, 0) == 0);
    mappings();
    calls();
    unspool_end_region();
    puts("region ends");
    pthread_setname_np(pthread_self(), "told");
    thread_said("told");
    return 0;
}
