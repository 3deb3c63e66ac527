// Allocates at the ends of call paths that are known by construction, each with a size of its own.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#ifdef __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noinline, noclone))
#endif

// What a function still has to do behind a call makes that no jump.
static volatile int behind;
static void *volatile block;

KEPT void allocate(size_t size)
{
    block = malloc(size);
    behind++;
}

KEPT void inner(size_t size)
{
    allocate(size);
    behind++;
}

KEPT void outer(size_t size)
{
    inner(size);
    behind++;
}

KEPT void recurses(int depth, size_t size)
{
    if (depth > 0)
        recurses(depth - 1, size);
    else
        allocate(size);
    behind++;
}

KEPT void makes_room(size_t bytes, size_t size)
{
    volatile char *room = alloca(bytes);
    room[bytes - 1] = 1;
    allocate(size);
    behind += room[bytes - 1];
}

KEPT void aligns(size_t size)
{
    volatile char room[256] __attribute__((aligned(128)));
    room[size % 256] = 1;
    allocate(size);
    behind += room[size % 256];
}

// Keeps values in all registers that calls keep.
KEPT long keeps(long a, long b, long c, long d, long e, size_t size)
{
    long sum = a * b + c * d;
    allocate(size);
    return sum + a * c * e + b * d + behind;
}

KEPT int compares(const void *one, const void *other)
{
    static int times;
    if (times++ == 0)
        allocate(100006);
    return *(const int *)one - *(const int *)other;
}

KEPT void sorts(void)
{
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof numbers[0], compares);
    behind += numbers[0];
}

// A handler, on a stack of its own, of a signal in the middle of a function.
KEPT void handles(int number, siginfo_t *information, void *context)
{
    (void)number, (void)information;
    allocate(100007);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

KEPT void traps(void)
{
    __asm__ volatile("ud2");
    behind++;
}

KEPT void interrupted(void)
{
    traps();
    behind++;
}

KEPT void *works(void *nothing)
{
    allocate(100008);
    behind++;
    return nothing;
}

int main(int count, char **arguments)
{
    static char stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = handles;
    if (count != 2 || sigaltstack(&other, NULL) != 0 || sigaction(SIGILL, &action, NULL) != 0)
        return 2;
#ifdef ANOTHER
    inner(100001);
#else
    outer(100001);
#endif
    recurses(3, 100002);
    makes_room(1000 * count, 100003);
    aligns(100004);
    if (keeps(count, 2, 3, 4, 5, 100005) == 0)
        return 2;
    sorts();
    interrupted();

    pthread_t thread;
    if (pthread_create(&thread, NULL, works, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 2;

    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) {
        puts(dlerror());
        return 2;
    }
    void (*enters)(void (*)(size_t), size_t);
    *(void **)&enters = dlsym(library, "enters");
    enters(allocate, 100009);
    puts("done");
    return 0;
}
