// Writes over a page of the address space below 2 GiB, around all protection: natively nothing is
// there.
// flags: -O1
#include <fcntl.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

enum { SIZE = 4096 };

int main(void) {
    // Instructions that nobody can execute.
    unsigned char bytes[SIZE];
    for (int i = 0; i < SIZE; i += 2)
        memcpy(bytes + i, "\x0f\x0b", 2);
    int memory = open("/proc/self/mem", O_RDWR);
    EXPECT(memory >= 0);
    ssize_t written = pwrite(memory, bytes, SIZE, 0x50000000);
    EXPECT(written == -1);
    return 0;
}
