// A program with nearly as many mappings as the kernel allows: it runs code on a page of each of
// some, writes there anew, and goes on where there are no more mappings to be had at all.
// flags: -O2 -D_GNU_SOURCE
// limit: 120
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "answer.h"
#include "expect.h"

enum { PAGE = 4096, PAGES = 64, ROUNDS = 20, MOST = 70000 };
#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)

static unsigned char *code;

static void rewrite(int number) {
    for (int page = 0; page < PAGES; page++) write_answer(code + page * PAGE, number + page);
    for (int page = 0; page < PAGES; page += 2) EXPECT(call(code + page * PAGE) == number + page);
    for (int page = 1; page < PAGES; page += 2) EXPECT(call(code + page * PAGE) == number + page);
}

int main(void) {
    code = mmap(NULL, PAGES * PAGE, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    rewrite(0);
    // Every other page of a reservation is another mapping, until there are no more.
    unsigned char *room = mmap(NULL, (size_t)MOST * 2 * PAGE, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(room != MAP_FAILED);
    long made = 0;
    while (made < MOST && mprotect(room + made * 2 * PAGE, PAGE, PROT_READ) == 0) made++;
    if (made == MOST) {
        puts("no limit");
        return 0;
    }
    EXPECT(errno == ENOMEM && made > 10000);
    for (int round = 1; round < ROUNDS; round++) rewrite(round * 100);
    // In pages that were code already, and others.
    for (int page = 0; page < PAGES; page += 3) write_answer(code + page * PAGE, 7);
    for (int page = 0; page < PAGES; page += 3) EXPECT(call(code + page * PAGE) == 7);
    EXPECT(munmap(room, (size_t)MOST * 2 * PAGE) == 0);
    rewrite(5);
    puts("all run");
    return 0;
}
