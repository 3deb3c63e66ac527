// Huge pages: mappings that ask for them are had or refused as without observation, and
// memory that the kernel is asked to keep in huge pages holds what was written.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

#define HUGE ((size_t)2 << 20)

int main(void) {
    void *huge = mmap(NULL, 4 * HUGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (huge == MAP_FAILED) {
        printf("refused: %s\n", strerror(errno));
    } else {
        EXPECT((uintptr_t)huge % HUGE == 0);
        memset(huge, 7, 4 * HUGE);
        EXPECT(munmap(huge, 4096) == -1 && errno == EINVAL);
        EXPECT(munmap(huge, 4 * HUGE) == 0);
        puts("had");
    }
    huge = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (30 << MAP_HUGE_SHIFT), -1, 0);
    printf("of 1 GiB: %s\n", huge == MAP_FAILED ? "refused" : "had");

    char *area = mmap(NULL, 16 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(area != MAP_FAILED);
    char *aligned = (char *)(((uintptr_t)area + HUGE - 1) & ~(HUGE - 1));
    printf("asked for: %d\n", madvise(aligned, 15 * HUGE, MADV_HUGEPAGE));
    for (size_t at = 0; at < 15 * HUGE; at += 4096)
        *(volatile size_t *)(aligned + at) = at;
    // A hole and a protected page split one.
    EXPECT(munmap(aligned + HUGE + 8192, 4096) == 0);
    EXPECT(mprotect(aligned + 2 * HUGE + 4096, 4096, PROT_READ) == 0);
    EXPECT(madvise(aligned + 3 * HUGE, 4096, MADV_DONTNEED) == 0);
    for (size_t at = 0; at < 15 * HUGE; at += 4096)
        if (at != HUGE + 8192)
            EXPECT(*(volatile size_t *)(aligned + at) == (at == 3 * HUGE ? 0 : at));
    puts("kept");
    return 0;
}
