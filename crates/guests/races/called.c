// Races a few calls deep: behind functions that were left by a jump, in recursion, and in copies that
// the C library makes.
#include "twin.h"
#include <setjmp.h>
long counter;
char text[4096], source[4096];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long size = sizeof text;
#define NO_COPY __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls")))
NO_COPY static void leaves(jmp_buf out, int depth) {
    if (depth == 0)
        longjmp(out, 1);
    leaves(out, depth - 1);
    KEEP;
}
NO_COPY static void innermost(void) {
    UNLESS_RACY(pthread_mutex_lock(&mutex);)
    counter++; // race: counter
    KEEP;
    UNLESS_RACY(pthread_mutex_unlock(&mutex);)
}
NO_COPY static void recurses(int depth) {
    if (depth == 0)
        innermost();
    else
        recurses(depth - 1);
    KEEP;
}
NO_COPY static void copies(void) {
    UNLESS_RACY(pthread_mutex_lock(&mutex);)
    memcpy(text, source, size); // race: text
    KEEP;
    UNLESS_RACY(pthread_mutex_unlock(&mutex);)
}
static void work(long number) {
    (void)number;
    jmp_buf out;
    for (int round = 0; round < ROUNDS; round++) {
        if (setjmp(out) == 0)
            leaves(out, 5);
        recurses(3);
        copies();
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
