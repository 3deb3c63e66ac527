// Repeated string instructions that a fault ends in their middle, upwards and downwards, also
// where source and target overlap: the handler lets them go on, and they do all of their work.
// Comparisons end before the page that does not exist. One counts with 32 bits.
// flags: -O1 -D_GNU_SOURCE
// variants: threaded
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

enum { PAGE = 4096, PAGES = 6 };
static char *pages; /* the third one from either end is not accessible */
static volatile int faults;

static void make_accessible(int signal, siginfo_t *information, void *context)
{
    (void)signal, (void)context;
    char *page = (char *)((uintptr_t)information->si_addr & -(uintptr_t)PAGE);
    faults++;
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0)
        _exit(3);
}

static void forbid(int page)
{
    EXPECT(mprotect(pages + page * PAGE, PAGE, PROT_NONE) == 0);
    faults = 0;
}

static void fill(void)
{
    for (int i = 0; i < PAGES * PAGE; i++)
        pages[i] = (char)(i * 7 + i / 251);
}

static void move(char *to, const char *from, long count)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
    EXPECT(count == 0);
}

static void move_down(int64_t *to, const int64_t *from, long count)
{
    to += count - 1, from += count - 1;
    __asm__ volatile("std\n rep movsq\n cld" : "+D"(to), "+S"(from), "+c"(count)::"memory");
    EXPECT(count == 0);
}

static void set(char *to, char byte, long count)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(byte) : "memory");
    EXPECT(count == 0);
}

int main(void)
{
    pages = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    EXPECT(pages != MAP_FAILED);
    struct sigaction action = {.sa_sigaction = make_accessible, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    static char copy[PAGES * PAGE];

    fill(); /* the source faults */
    char first = pages[100], last = pages[100 + 3 * PAGE - 1];
    forbid(2);
    move(copy, pages + 100, 3 * PAGE);
    EXPECT(faults == 1 && copy[0] == first && copy[3 * PAGE - 1] == last);
    EXPECT(memcmp(copy, pages + 100, 3 * PAGE) == 0);

    forbid(3); /* the target faults */
    set(pages + 2 * PAGE + 17, 'x', 2 * PAGE);
    EXPECT(faults == 1 && pages[4 * PAGE + 16] == 'x' && pages[4 * PAGE + 17] != 'x');

    fill(); /* downwards, with an overlap, over both */
    memcpy(copy, pages, PAGES * PAGE);
    forbid(2);
    move_down((int64_t *)(pages + PAGE + 8), (int64_t *)pages, 4 * PAGE / 8);
    EXPECT(faults == 1 && memcmp(pages + PAGE + 8, copy, 4 * PAGE) == 0);

    fill(); /* upwards, with an overlap that repeats what it has written */
    forbid(3);
    move(pages + 2 * PAGE + 3, pages + 2 * PAGE, 2 * PAGE);
    EXPECT(faults == 1);
    for (int i = 0; i < 2 * PAGE; i++)
        EXPECT(pages[2 * PAGE + 3 + i] == pages[2 * PAGE + i % 3]);

    set(pages, 'a', 2 * PAGE); /* comparisons that would reach it, and end before it */
    pages[2 * PAGE - 5] = 'b';
    forbid(2);
    char *in = pages + 9;
    long count = -1;
    __asm__ volatile("repne scasb" : "+D"(in), "+c"(count) : "a"('b') : "memory", "cc");
    EXPECT(faults == 0 && in == pages + 2 * PAGE - 4);
    char *one = pages, *other = pages + PAGE;
    count = 4 * PAGE;
    __asm__ volatile("repe cmpsb" : "+D"(one), "+S"(other), "+c"(count)::"memory", "cc");
    EXPECT(faults == 0 && one == pages + PAGE - 4);

    uint64_t from = (uintptr_t)pages, to = (uintptr_t)pages + 3 * PAGE, half = 2 * PAGE;
    EXPECT(to >> 32 == 0);
    memset(pages + PAGE, 'c', PAGE);
    __asm__ volatile("addr32 rep movsb" : "+D"(to), "+S"(from), "+c"(half)::"memory");
    EXPECT(half == 0 && pages[5 * PAGE - 1] == 'c' && pages[4 * PAGE - 5 + PAGE] == 'c');
    return 0;
}
