// Leaves no address space to whoever wants some, and runs new code without end.
// flags: -O1
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "expect.h"

enum { FUNCTIONS = 1000000, STRIDE = 64 };

int main(void) {
    size_t size = (size_t)FUNCTIONS * STRIDE;
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *code = mmap(NULL, size, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    for (size_t at = 0; at < size; at += STRIDE)
        memcpy(code + at, "\xb8\x01\x00\x00\x00\xc3", 6);
    EXPECT(mprotect(code, size, PROT_READ | PROT_EXEC) == 0);
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
    long sum = 0;
    for (size_t at = 0; at < size; at += STRIDE)
        sum += ((int (*)(void))(code + at))();
    EXPECT(sum == FUNCTIONS);
    return 0;
}
