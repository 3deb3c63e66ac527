// Code that is written through a second mapping of the same memory, as compilers do that
// never have a page both writable and executable.
// flags: -O2 -D_GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

int main(void) {
    int file = memfd_create("code", 0);
    EXPECT(ftruncate(file, 4096) == 0);
    unsigned char *writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    int (*volatile code)(int) = (int (*)(int))page;
    for (int wanted = 200; wanted < 300; wanted++) {
        unsigned char bytes[] = {0xb8, 0, 0, 0, 0, 0x01, 0xf8, 0xc3}; // mov $N, eax; add edi, eax; ret
        memcpy(bytes + 1, &wanted, 4);
        memcpy(writable, bytes, sizeof bytes);
        for (int i = 0; i < 100; i++)
            EXPECT(code(i) == wanted + i);
    }
    puts("as written");
    return 0;
}
