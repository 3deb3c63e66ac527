// Jump tables, computed goto, function pointers by the hundred, tail calls, loop and jrcxz.
// flags: -O2
// variants: threaded
#include <stdint.h>

#include "expect.h"

static long interpret(const unsigned char *code) {
    static void *operations[] = {&&stop, &&add, &&twice, &&again};
    long value = 1, rounds = 0;
    const unsigned char *next = code;
    goto *operations[*next++];
add:
    value += 3;
    goto *operations[*next++];
twice:
    value = value * 2 % 1000003;
    goto *operations[*next++];
again:
    if (++rounds < 500)
        next = code;
    goto *operations[*next++];
stop:
    return value;
}

static long select_case(unsigned which) {
    switch (which % 16) {
    case 0: return 5;
    case 1: return 17;
    case 2: return 2;
    case 3: return 99;
    case 4: return 31;
    case 5: return 8;
    case 6: return 64;
    case 7: return 12;
    case 9: return 1;
    case 11: return 77;
    default: return 1000 + which;
    }
}

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define DEFINE(N) static __attribute__((noinline)) long target_##N(long value) { return value * 3 + N; }
#define NAME(N) target_##N,
EACH(DEFINE)
static long (*volatile targets[])(long) = {EACH(NAME)};

static __attribute__((noinline)) int is_even(unsigned value);
static __attribute__((noinline)) int is_odd(unsigned value) { return value != 0 && is_even(value - 1); }
static __attribute__((noinline)) int is_even(unsigned value) { return value == 0 || is_odd(value - 1); }

int main(void) {
    long sum = interpret((unsigned char[]){1, 2, 1, 3, 0});
    for (unsigned i = 0; i < 2000; i++)
        sum += select_case(i * 7) + targets[i * i % 10](i) % 100;
    EXPECT(is_even(100000) && !is_odd(100000));
    uint64_t count = 0, rest = 300;
    __asm__ volatile("1: inc %0\n loop 1b\n jrcxz 2f\n ud2\n 2:" : "+r"(count), "+c"(rest)::"cc");
    EXPECT(count == 300 && rest == 0);
    rest = 300;
    __asm__ volatile("1: inc %0\n cmp $450, %0\n loopne 1b\n" : "+r"(count), "+c"(rest)::"cc");
    EXPECT(count == 450 && rest == 150);
    printf("%ld\n", sum);
    return 0;
}
