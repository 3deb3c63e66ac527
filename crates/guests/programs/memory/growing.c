// A stack that grows by recursion, in one large step, by what the kernel writes and by what another
// thread does, also in a child; and a mapping of the program's own that grows, is protected and
// unmapped in part. Each line says down to where it is mapped then.
// flags: -O1 -D_GNU_SOURCE -pthread
// compare: status
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { PAGE = 4096, MEGABYTE = 1 << 20 };
static char *const top = (char *)0x100000400000;

// Where the mapping starts that holds an address.
static unsigned long start_of(const volatile void *address)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long start, end, found = 0;
    EXPECT(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (unsigned long)address &&
            (unsigned long)address < end)
            found = start;
    fclose(maps);
    EXPECT(found);
    return found;
}

static void say(const char *what, const volatile void *address)
{
    printf("%s %lx\n", what, start_of(address));
    fflush(stdout);
}

static __attribute__((noinline)) unsigned long descend(unsigned long bytes)
{
    volatile char frame[500];
    frame[0] = 1;
    return bytes < sizeof frame ? 0 : descend(bytes - sizeof frame) + frame[0];
}

static __attribute__((noinline)) long leap(int size)
{
    char *block = alloca(size);
    memset(block, size % 100, 100);
    return block[0];
}

// A page that far below the calling function's frame.
static char *below(long bytes)
{
    char *here = __builtin_frame_address(0);
    return here - bytes;
}

static void *touch(void *address)
{
    *(volatile char *)address = 1;
    say("grown", address);
    return NULL;
}

static void stack(void)
{
    volatile char here = 0;
    int zeros = open("/dev/zero", O_RDONLY);
    pthread_t thread;
    say("stack", &here);
    descend(MEGABYTE);
    say("grown", &here);
    leap(2 * MEGABYTE);
    say("grown", &here);
    EXPECT(read(zeros, below(3 * MEGABYTE), 100) == 100);
    say("grown", &here);
    EXPECT(pthread_create(&thread, NULL, touch, below(4 * MEGABYTE)) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    int status;
    if (child == 0) {
        descend(6 * MEGABYTE);
        say("grown", &here);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    descend(5 * MEGABYTE);
    say("grown", &here);
}

// A mapping that grows below `top`, touched page by page.
static void own_mapping(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE;
    char *const start = top - PAGE;
    EXPECT(mmap(start, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == start);
    for (int page = 1; page <= 20; page++)
        start[-page * PAGE] = 1;
    say("grown", start);
    EXPECT(mprotect(start - 10 * PAGE, PAGE, PROT_READ) == 0);
    for (int page = 21; page <= 40; page++)
        start[-page * PAGE] = 1;
    say("grown", start - 30 * PAGE);
    // What lies between two pieces can be grown into again.
    EXPECT(munmap(start - 10 * PAGE, 5 * PAGE) == 0);
    start[-6 * PAGE] = 1;
    say("grown", start);
    EXPECT(munmap(start - 40 * PAGE, 4 * PAGE) == 0);
    start[-38 * PAGE] = 1;
    say("grown", start - 30 * PAGE);
    EXPECT(munmap(start - 50 * PAGE, 51 * PAGE) == 0);
}

int main(void)
{
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_STACK, &limit) == 0);
    limit.rlim_cur = 16 * MEGABYTE;
    EXPECT(setrlimit(RLIMIT_STACK, &limit) == 0);
    stack();
    own_mapping();
    return 0;
}
