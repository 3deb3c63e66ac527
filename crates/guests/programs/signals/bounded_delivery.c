// Signals reach a thread wherever it runs without end: in a jump to itself, in a loop without
// a way out, in one that accesses memory, in one that branches at every other instruction, in a
// loop through a table of jumps, and in a string instruction of many megabytes. What the thread
// computes between the sending of a signal and its handler is bounded.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "expect.h"

enum { ROUNDS = 3, WINDOW = 2 << 20 };
#define LENGTH (64ul << 20)
// Of the thread's own processor time, so that others on the machine do not matter.
#define BOUND_NS 200000000l

static clockid_t clock_of_looping;
// For each signal a line that the looping thread has never touched.
static struct {
    _Alignas(64) long sent;
} signals[100];
static int signal_number, looping;
static long latest;
// Whether to say how long it took.
static int told;
static pid_t looping_thread;
static void *volatile way_out;

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000l + time.tv_nsec;
}

static void handler(int signal, siginfo_t *information, void *context) {
    (void)signal, (void)information;
    long delay = now(CLOCK_THREAD_CPUTIME_ID) - signals[signal_number++].sent;
    if (delay > latest)
        latest = delay;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (greg_t)way_out;
    __atomic_store_n(&looping, 0, __ATOMIC_SEQ_CST);
}

static void *interrupt(void *number) {
    while (!__atomic_load_n(&looping, __ATOMIC_SEQ_CST))
        ;
    // The loop is under way.
    nanosleep(&(struct timespec){0, 3000000}, NULL);
    signals[(long)number].sent = now(clock_of_looping);
    EXPECT(syscall(SYS_tgkill, getpid(), looping_thread, SIGUSR1) == 0);
    return NULL;
}

#define LOOP(code, ...)                                                             \
    __asm__ volatile("lea 9f(%%rip), %%rax\n mov %%rax, %0\n movl $1, %1\n" code    \
                     "\n ud2\n 9:"                                                  \
                     : "=m"(way_out), "=m"(looping)                                 \
                     : __VA_ARGS__                                                  \
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "cc", "memory")

static void to_itself(void) { LOOP("1: jmp 1b", "i"(0)); }

static void no_way_out(void) {
    LOOP("1: add $1, %%rbx\n imul %%rbx, %%rcx\n xor %%rcx, %%rdx\n jmp 1b", "i"(0));
}

static void with_memory(void) {
    static uint64_t words[64];
    LOOP("mov %2, %%rdi\n xor %%ebx, %%ebx\n"
         "1: mov (%%rdi,%%rbx,8), %%rcx\n add %%rcx, 8(%%rdi)\n lock incq 16(%%rdi)\n"
         " inc %%ebx\n and $31, %%ebx\n jmp 1b",
         "r"(words));
}

static void with_branches(void) {
    static uint64_t words[64];
    LOOP("mov %2, %%rdi\n xor %%ebx, %%ebx\n"
         "1: inc %%ebx\n test $1, %%bl\n jz 2f\n inc %%rcx\n incq (%%rdi)\n 2: test $2, %%bl\n jz 3f\n"
         " dec %%rdx\n 3: test $4, %%bl\n jnz 1b\n jmp 1b",
         "r"(words));
}

static void by_table(void) {
    LOOP("lea 1f(%%rip), %%rcx\n lea 2f(%%rip), %%rdx\n"
         "1: xchg %%rcx, %%rdx\n jmp *%%rdx\n 2: xchg %%rcx, %%rdx\n jmp *%%rdx", "i"(0));
}

static char *from, *to;

static void in_a_copy(void) {
    LOOP("1: mov %2, %%rsi\n mov %3, %%rdi\n mov %4, %%rcx\n rep movsb\n jmp 1b", "r"(from),
         "r"(to), "r"(LENGTH));
}

static void in_a_search(void) {
    LOOP("1: mov %2, %%rdi\n mov %3, %%rcx\n mov $1, %%eax\n repne scasb\n jmp 1b", "r"(from),
         "r"(LENGTH));
}

static void measure(const char *name, void (*loop)(void)) {
    latest = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        long number = signal_number;
        EXPECT(pthread_create(&thread, NULL, interrupt, (void *)number) == 0);
        loop();
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    if (told)
        fprintf(stderr, "%s: %.3f ms\n", name, (double)latest / 1e6);
    EXPECT(latest < BOUND_NS);
    printf("%s: in time\n", name);
}

// The same two megabytes again and again.
static char *windows(int object) {
    char *all = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(all != MAP_FAILED);
    for (unsigned long at = 0; at < LENGTH; at += WINDOW)
        EXPECT(mmap(all + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, object, 0) ==
               all + at);
    return all;
}

int main(int count, char **arguments) {
    (void)arguments;
    told = count > 1;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    looping_thread = gettid();
    EXPECT(pthread_getcpuclockid(pthread_self(), &clock_of_looping) == 0);
    int object = memfd_create("windows", 0);
    EXPECT(object >= 0 && ftruncate(object, WINDOW) == 0);
    from = windows(object);
    to = windows(object);
    measure("jump to itself", to_itself);
    measure("no way out", no_way_out);
    measure("memory", with_memory);
    measure("branches", with_branches);
    measure("table", by_table);
    measure("copy", in_a_copy);
    measure("search", in_a_search);
    return 0;
}
