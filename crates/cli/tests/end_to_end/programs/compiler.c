// Makes a thousand functions at run time, and calls each.
#include <string.h>
#include <sys/mman.h>

enum { COUNT = 1000, SIZE = 64 };

int main(void) {
    unsigned char *code = mmap(0, COUNT * SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 1;
    int sum = 0;
    for (int number = 0; number < COUNT; number++) {
        unsigned char *function = code + number * SIZE;
        // lea eax, [rdi + 1], often; ret
        for (int at = 0; at < 60; at += 3)
            memcpy(function + at, "\x8d\x47\x01", 3);
        function[60] = 0xc3;
        sum += ((int (*)(int))function)(number) - number;
    }
    return sum != COUNT;
}
