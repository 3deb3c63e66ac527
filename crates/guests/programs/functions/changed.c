// Calls a function from a loop, by a jump, on the way to itself, and on another stack, and says where
// that is: an observer may change what it gets and returns.
// flags: -O2 -D_GNU_SOURCE
// variants: stripped
#include <stdio.h>
#include <ucontext.h>

#define APART __attribute__((noinline, noipa))

extern char __executable_start[];

APART long product(long a, long b) { return a * b; }

APART long by_a_jump(long a, long b) { return product(a, b + 1); }

APART long nested(long depth) { return depth == 0 ? 1 : product(nested(depth - 1), 2) - 1; }

static ucontext_t own, other;
static long on_other_stack;

static void elsewhere(void) { on_other_stack = product(7, 8); }

int main(void)
{
    static char stack[64 << 10];
    printf("%lx\n", (long)product - (long)__executable_start);
    for (long i = 1; i <= 3; i++)
        printf("%ld\n", product(i, 10));
    printf("%ld\n", by_a_jump(4, 9));
    printf("%ld\n", nested(3));
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = sizeof stack;
    other.uc_link = &own;
    makecontext(&other, elsewhere, 0);
    for (int i = 0; i < 2; i++) {
        swapcontext(&own, &other);
        printf("%ld\n", on_other_stack);
        makecontext(&other, elsewhere, 0);
    }
    return 0;
}
