// Spends known CPU time in loops: what each takes with all that is in it stands behind its head, in
// seconds.
// flags: -O2

#include <time.h>

#define APART __attribute__((noinline, noipa))

static volatile double kept;
static volatile int two = 2, ten = 10;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

APART double burn(double seconds) {
    double end = now() + seconds;
    volatile double value = 1;
    while (now() < end) // loop: 1.0
        for (int i = 0; i < 20000; i++) // loop: 1.0
            value = value * 1.0000001;
    return value;
}

APART void nested(void) {
    for (int i = 0; i < ten; i++) { // loop: 0.6
        kept = burn(0.02);
        for (int k = 0; k < two; k++) // loop: 0.4
            kept = burn(0.02);
    }
}

// Two entries: a jump leads into its middle.
APART void entered_twice(int at_start) {
    int i = 0;
    if (at_start)
        goto middle;
    do {
        kept = burn(0.015); // loop: 0.3
    middle:
        kept = burn(0.015);
    } while (++i < ten);
}

APART void once(void) {
    kept = burn(0.1);
}

APART void idle(void) {
    for (int i = 0; i < ten; i++) // loop: 0
        kept = i;
}

int main(void) {
    nested();
    entered_twice(0);
    once();
    idle();
    return 0;
}
