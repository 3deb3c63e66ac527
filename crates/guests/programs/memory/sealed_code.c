// Code on pages that are sealed (mseal): before it has run, and after. Writable as they are, it is
// changed then, and what runs is what is there.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "answer.h"
#include "expect.h"

#define MSEAL 462

static void check(int run_before) {
    unsigned char *code =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    write_answer(code + 4090, 1);
    if (run_before)
        EXPECT(call(code + 4090) == 1);
    if (syscall(MSEAL, code, 8192, 0) != 0)
        EXPECT(errno == ENOSYS);
    for (int number = 2; number < 100; number++) {
        EXPECT(call(code + 4090) == number - 1);
        write_answer(code + 4090, number);
        EXPECT(call(code + 4090) == number);
    }
}

int main(void) {
    check(0);
    check(1);
    puts("sealed");
    return 0;
}
