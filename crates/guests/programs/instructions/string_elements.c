// Repeated string instructions of all kinds, upwards and downwards, with counts of 64 and 32 bits:
// those that look for something end before their count does, those that meet a page that is not
// accessible are resumed by the handler or given up. Each prints the elements that it accesses, in
// their order, computed from the counts.
// flags: -O1 -D_GNU_SOURCE
// compare: status
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

enum { PAGE = 4096, PAGES = 8 };
static char *source, *target; /* below 4 GiB */
static sigjmp_buf out;
static volatile int gives_up, faults;

static void make_accessible(int signal, siginfo_t *information, void *context)
{
    (void)signal, (void)context;
    faults++;
    if (gives_up)
        siglongjmp(out, 1);
    char *page = (char *)((uintptr_t)information->si_addr & -(uintptr_t)PAGE);
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0)
        _exit(3);
}

/* Elements of an instruction: what it reads by rsi and by rdi, and writes by rdi. */
static void expect(const char *pc, const char *kinds, const char *si, const char *di, int size,
                   int step, long count)
{
    for (long i = 0; i < count; i++)
        for (const char *kind = kinds; *kind; kind++)
            printf("%lx %c %lx %u\n", (long)pc, *kind == 'w' ? 'w' : 'r',
                   (long)(*kind == 's' ? si : di) + i * step * size, size);
}

#define AT(label) ".globl at_" #label "\nat_" #label ": "
#define STRING(label, code, kinds, size, step)                                                     \
    extern const char at_##label[];                                                               \
    static __attribute__((noinline)) void label(char *si, char *di, long count, long done, long a) \
    {                                                                                             \
        char *s = si, *d = di;                                                                    \
        long c = count;                                                                           \
        __asm__ volatile("cmp %%rsi, %%rsi\n" AT(label) code "\n cld"                             \
                         : "+S"(s), "+D"(d), "+c"(c) : "a"(a) : "memory", "cc");                  \
        EXPECT(gives_up || (int)c == (int)(count - done));                                                    \
        expect(at_##label, kinds, si, di, size, step, done);                                      \
    }
STRING(movsb, "rep movsb", "sw", 1, 1)
STRING(movsq, "rep movsq", "sw", 8, 1)
STRING(stosb, "rep stosb", "w", 1, 1)
STRING(stosd, "rep stosl", "w", 4, 1)
STRING(lodsw, "rep lodsw", "s", 2, 1)
STRING(cmpsb, "repe cmpsb", "sr", 1, 1)
STRING(scasb, "repne scasb", "r", 1, 1)
STRING(narrow, "addr32 rep movsl", "sw", 4, 1)
#define DOWNWARDS(label, code, kinds, size)                                                        \
    extern const char at_##label[];                                                               \
    static __attribute__((noinline)) void label(char *si, char *di, long count)                    \
    {                                                                                             \
        char *s = si, *d = di;                                                                    \
        long c = count;                                                                           \
        __asm__ volatile("std\n" AT(label) code "\n cld"                                          \
                         : "+S"(s), "+D"(d), "+c"(c) : "a"(7) : "memory", "cc");                  \
        expect(at_##label, kinds, si, di, size, -1, count);                                       \
    }
DOWNWARDS(movsq_down, "rep movsq", "sw", 8)
DOWNWARDS(stosb_down, "rep stosb", "w", 1)

static void forbid(char *page)
{
    EXPECT(mprotect(page, PAGE, PROT_NONE) == 0);
    faults = 0;
}

static char *pages(void)
{
    char *all = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    EXPECT(all != MAP_FAILED);
    return all;
}

static void whole(void)
{
    movsb(source + 3, target + 5, 0, 0, 0);
    movsb(source + 3, target + 5, 1, 1, 0);
    movsb(source + 3, target + 5, 700, 700, 0);
    movsq(source, target, 600, 600, 0);
    stosb(source, target, 333, 333, 7);
    stosd(source, target, 5, 5, 7);
    lodsw(source, target, 9, 9, 0);
    narrow(source, target, 0x500000006, 0x500000006 & 0xffffffff, 0);
    movsq_down(source + 4000, target + 4000, 50);
    stosb_down(source, target + 4000, 50);
}

static void broken_off(void)
{
    memset(source, 1, PAGE);
    memset(target, 1, PAGE);
    cmpsb(source, target, 100, 100, 0);
    source[41] = 2;
    cmpsb(source, target, 100, 42, 0);
    cmpsb(source, target, 0, 0, 0);
    target[17] = 9;
    scasb(0, target, 100, 18, 9);
    scasb(0, target + 18, 30, 30, 9);
}

static void faulting(void)
{
    forbid(source + PAGE);
    movsb(source + 100, target, 2 * PAGE, 2 * PAGE, 0);
    EXPECT(faults == 1);
    forbid(target + PAGE);
    stosd(source, target + 8, PAGE, PAGE, 3);
    EXPECT(faults == 1);
    gives_up = 1;
    forbid(target + 2 * PAGE);
    if (sigsetjmp(out, 1) == 0)
        stosb(source, target, PAGES * PAGE, 0, 3);
    EXPECT(faults == 1);
    expect(at_stosb, "w", 0, target, 1, 1, 2 * PAGE);
    /* Nothing is done before the fault. */
    if (sigsetjmp(out, 1) == 0)
        stosb(source, target + 2 * PAGE, 4, 0, 3);
    EXPECT(faults == 2);
    gives_up = 0;
    stosb(source, target, 6, 6, 3);
}

int main(void)
{
    source = pages(), target = pages();
    struct sigaction action = {.sa_sigaction = make_accessible, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    whole();
    broken_off();
    faulting();
    return 0;
}
