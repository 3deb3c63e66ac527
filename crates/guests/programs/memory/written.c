// Says what is in memory that an observer may write at `point`: data, data that must not be written,
// data up to the end of what is mapped, and code that has been executed before.
// flags: -O1 -D_GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noipa)) void point(int number, unsigned char *at)
{
    (void)number;
    (void)at;
    __asm__ volatile("" ::: "memory");
}

static unsigned char *pages(int count)
{
    return mmap(NULL, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
    unsigned char *data = pages(1), *fixed = pages(1), *end = pages(2) + 4096 - 3;
    unsigned char *code = pages(1);
    memset(fixed, 5, 4096);
    mprotect(fixed, 4096, PROT_READ);
    munmap(end + 3, 4096);
    static const unsigned char returns_one[] = {0xb8, 1, 0, 0, 0, 0xc3};
    memcpy(code, returns_one, sizeof returns_one);
    mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    int (*function)(void) = (int (*)(void))code;
    for (int round = 0; round < 3; round++) {
        point(0, data + 100);
        printf("data %d %d %d\n", data[99], data[100], data[108]);
        point(1, fixed + 100);
        printf("fixed %d\n", fixed[100]);
        point(2, end);
        printf("end %d %d %d\n", end[0], end[1], end[2]);
        int before = function();
        point(3, code + 1);
        printf("code %d %d\n", before, function());
    }
    return 0;
}
