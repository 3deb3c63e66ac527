// Every atomic read-modify-write instruction of every width, contended by two threads.
// flags: -O2 -pthread -mcx16
// libraries: -latomic
#include <pthread.h>
#include <stdint.h>

#include "expect.h"

enum { ROUNDS = 1000 };

static _Alignas(64) struct {
    uint8_t add8;
    uint16_t add16;
    uint32_t add32;
    uint64_t add64, or64, and64, xor64, not64, inc, dec, bits, swap;
    _Alignas(16) uint64_t pair[2];
} shared = {.and64 = ~0ull, .dec = 2 * ROUNDS};

static pthread_barrier_t start;

static void *change(void *argument) {
    uint64_t me = (uint64_t)argument;
    pthread_barrier_wait(&start);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        __asm__ volatile("lock addb $1, %0" : "+m"(shared.add8));
        __asm__ volatile("lock addw $1, %0" : "+m"(shared.add16));
        uint32_t one = 1;
        __asm__ volatile("lock xaddl %0, %1" : "+r"(one), "+m"(shared.add32));
        __asm__ volatile("lock addq $1, %0" : "+m"(shared.add64));
        __asm__ volatile("lock orq %1, %0" : "+m"(shared.or64) : "r"(1ull << (i % 32 + 32 * me)));
        __asm__ volatile("lock andq %1, %0" : "+m"(shared.and64) : "r"(~(1ull << (i % 32 + 32 * me))));
        __asm__ volatile("lock xorq $1, %0" : "+m"(shared.xor64));
        __asm__ volatile("lock notq %0" : "+m"(shared.not64));
        __asm__ volatile("lock incq %0" : "+m"(shared.inc));
        __asm__ volatile("lock decq %0" : "+m"(shared.dec));
        __asm__ volatile("lock btsq %1, %0" : "+m"(shared.bits) : "r"(i % 32 + 32 * me) : "cc");
        uint64_t mine = me + 1;
        __asm__ volatile("xchgq %0, %1" : "+r"(mine), "+m"(shared.swap));
        EXPECT(mine <= 2);
        uint64_t low = shared.pair[0], high = shared.pair[1];
        char done;
        do
            __asm__ volatile("lock cmpxchg16b %1"
                             : "=@cce"(done), "+m"(shared.pair), "+a"(low), "+d"(high)
                             : "b"(low + 1), "c"(high + 3));
        while (!done);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&start, NULL, 2);
    for (size_t i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, change, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("%u %u %u %lu %lx %lx %lx %lx %lu %lu %lx %lu %lu\n", shared.add8, shared.add16,
           shared.add32, shared.add64, shared.or64, shared.and64, shared.xor64, shared.not64,
           shared.inc, shared.dec, shared.bits, shared.pair[0], shared.pair[1]);
    return 0;
}
