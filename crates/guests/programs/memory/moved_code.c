// Code that is moved, mapped over, and flipped between writable and executable, while another
// thread runs it: each call runs what was there when it was made.
// flags: -O1 -pthread -D_GNU_SOURCE
// variants: threaded
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "answer.h"
#include "expect.h"

enum { PAGE = 4096, ROUNDS = 200 };

static unsigned char *map_at(void *place, int protection) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0);
    unsigned char *area = mmap(place, PAGE, protection, flags, -1, 0);
    EXPECT(area != MAP_FAILED);
    return area;
}

// A second thread runs code on its own page all the time, and is not disturbed.
static unsigned char *steady;
static atomic_int stop;

static void *run_steadily(void *argument) {
    long calls = 0;
    for (; !atomic_load(&stop) || calls < 100; calls++)
        EXPECT(call(steady + calls % 64 * 8) == calls % 64);
    return argument;
}

int main(void) {
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    steady = map_at(NULL, all);
    for (int i = 0; i < 64; i++)
        write_answer(steady + i * 8, i);
    EXPECT(mprotect(steady, PAGE, PROT_READ | PROT_EXEC) == 0);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, run_steadily, NULL) == 0);

    // Moved, and moved back: the old place is gone, the new one runs.
    unsigned char *places[2] = {map_at(NULL, all), map_at(NULL, PROT_NONE)};
    write_answer(places[0], 1);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *from = places[round % 2], *to = places[(round + 1) % 2];
        EXPECT(call(from) == 1 + round);
        EXPECT(mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
        EXPECT(call(to) == 1 + round);
        write_answer(to, 2 + round);
        EXPECT(call(to) == 2 + round);
        map_at(from, PROT_NONE);
    }

    // Mapped over, without a word before.
    unsigned char *area = places[ROUNDS % 2];
    for (int round = 0; round < ROUNDS; round++) {
        map_at(area, PROT_READ | PROT_WRITE);
        write_answer(area, 1000 + round);
        EXPECT(mprotect(area, PAGE, PROT_READ | PROT_EXEC) == 0);
        EXPECT(call(area) == 1000 + round);
        EXPECT(mprotect(area, PAGE, PROT_READ | PROT_WRITE) == 0);
        write_answer(area, 2000 + round);
        EXPECT(mprotect(area, PAGE, PROT_READ | PROT_EXEC) == 0);
        EXPECT(call(area) == 2000 + round);
    }

    // The code grows over the end of its page: the second page comes, goes and changes.
    unsigned char *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(two != MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
        write_answer(two + PAGE - 3, round << 16 | round);
        EXPECT(call(two + PAGE - 3) == (round << 16 | round));
        EXPECT(madvise(two + PAGE, PAGE, MADV_DONTNEED) == 0);
        // What is left: the immediate's last two bytes are zero, and then `add %al, (%rax)`.
        two[PAGE + 2] = 0xc3;
        EXPECT(call(two + PAGE - 3) == round);
    }
    atomic_store(&stop, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    puts("as it was");
    return 0;
}
