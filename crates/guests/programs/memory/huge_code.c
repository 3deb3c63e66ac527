// Code in huge pages: those that the kernel sets aside, where there are any (the mapping is asked
// for by a size that is no multiple of theirs), and those into which it gathers small ones. It is
// written, run, written anew, protected and moved.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "answer.h"
#include "expect.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE ((size_t)2 << 20)
#define CODE (PROT_READ | PROT_EXEC)
#define ALL (CODE | PROT_WRITE)

// Where the code is: on the first page, on the last, and over the end of a small one.
static const size_t places[] = {0, HUGE - 64, 5 * 4096 - 3};
enum { PLACES = sizeof places / sizeof *places };

static void check(unsigned char *huge) {
    for (int number = 0; number < 5; number++) {
        for (int i = 0; i < PLACES; i++) write_answer(huge + places[i], number + i);
        for (int i = 0; i < PLACES; i++) EXPECT(call(huge + places[i]) == number + i);
    }
    EXPECT(mprotect(huge, HUGE, CODE) == 0);
    for (int i = 0; i < PLACES; i++) EXPECT(call(huge + places[i]) == 4 + i);
    EXPECT(mprotect(huge, HUGE, ALL) == 0);
    for (int i = 0; i < PLACES; i++) {
        write_answer(huge + places[i], 100 + i);
        EXPECT(call(huge + places[i]) == 100 + i);
    }
}

int main(void) {
    unsigned char *huge = mmap(NULL, HUGE - 4096, ALL,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (huge == MAP_FAILED) {
        printf("set aside: %s\n", strerror(errno));
    } else {
        check(huge);
        EXPECT(madvise(huge, HUGE, MADV_DONTNEED) == 0);
        write_answer(huge, 7);
        EXPECT(call(huge) == 7 && munmap(huge, HUGE) == 0);
        puts("set aside: right");
    }
    huge = mmap(NULL, 4 * HUGE, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(huge != MAP_FAILED);
    huge = (unsigned char *)(((uintptr_t)huge + HUGE - 1) & ~(HUGE - 1));
    int gathered = madvise(huge, 2 * HUGE, MADV_HUGEPAGE);
    printf("gathered: %s\n", gathered == 0 ? "asked for" : strerror(errno));
    check(huge);
    // What has run and been split is gathered again.
    madvise(huge, HUGE, MADV_COLLAPSE);
    check(huge);
    EXPECT(mremap(huge, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, huge + HUGE) == huge + HUGE);
    for (int i = 0; i < PLACES; i++) EXPECT(call(huge + HUGE + places[i]) == 100 + i);
    check(huge + HUGE);
    puts("gathered: right");
    return 0;
}
