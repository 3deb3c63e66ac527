// One thread changes the code that another runs, by the architecture's rules: the other one
// waits for a flag and executes a serialising instruction before it goes there. And one
// aligned store changes a jump's target or an instruction under its feet.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "answer.h"
#include "expect.h"

enum { ROUNDS = 200 };

static unsigned char *code;
static atomic_int turn, stop;

static void serialise(void) {
    unsigned leaf = 0;
    __asm__ volatile("cpuid" : "+a"(leaf)::"rbx", "rcx", "rdx", "memory");
}

static void *run(void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&turn) != round)
            ;
        serialise();
        EXPECT(call(code) == round);
        atomic_store(&turn, -round);
    }
    return argument;
}

// Old or new, nothing else; new for good once it was seen.
static void *run_under_change(void *argument) {
    int last = 1;
    while (!atomic_load(&stop)) {
        int now = call(code + 64);
        EXPECT((now == 1 || now == 2));
        last = now;
        (void)last;
    }
    return argument;
}

int main(void) {
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, run, NULL) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        // Longer and shorter code in turn.
        unsigned char short_form[] = {0xb8, 0, 0, 0, 0, 0xc3};
        unsigned char long_form[] = {0x90, 0x66, 0x90, 0x48, 0xc7, 0xc0, 0, 0, 0, 0, 0xc3};
        if (round % 2) {
            memcpy(short_form + 1, &round, 4);
            memcpy(code, short_form, sizeof short_form);
        } else {
            memcpy(long_form + 6, &round, 4);
            memcpy(code, long_form, sizeof long_form);
        }
        atomic_store(&turn, round);
        while (atomic_load(&turn) != -round)
            ;
    }
    EXPECT(pthread_join(thread, NULL) == 0);

    // jmp +N over two answers; the jump is changed by one aligned store of eight bytes.
    unsigned char start[] = {0xeb, 0x06, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                             0xb8, 1, 0, 0, 0, 0xc3, 0x90, 0x90, 0xb8, 2, 0, 0, 0, 0xc3};
    memcpy(code + 64, start, sizeof start);
    EXPECT(pthread_create(&thread, NULL, run_under_change, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t word;
        memcpy(&word, code + 64, 8);
        word = (word & ~0xff00ull) | (round % 2 ? 0x0600 : 0x0e00);
        __atomic_store_n((uint64_t *)(code + 64), word, __ATOMIC_SEQ_CST);
        serialise();
        EXPECT(call(code + 64) == (round % 2 ? 1 : 2));
    }
    atomic_store(&stop, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    puts("as changed");
    return 0;
}
