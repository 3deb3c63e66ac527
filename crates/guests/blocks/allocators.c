// Two threads write blocks of each function that allocates.
#include "../races/twin.h"
static char *plain, *cleared, *larger, *moved, *stored, *aligned, *copied;
static void work(long number) {
    long index = 20 UNLESS_RACY(+ number);
    plain[index] = 1; // race: -, of plain
    KEEP;
    cleared[index] = 1; // race: -, of cleared
    KEEP;
    larger[index] = 1; // race: -, of larger
    KEEP;
    moved[index] = 1; // race: -, of moved
    KEEP;
    stored[index] = 1; // race: -, of stored
    KEEP;
    aligned[index] = 1; // race: -, of aligned
    KEEP;
    copied[index] = 1; // race: -, of copied
    KEEP;
    (void)number;
}
int main(void) {
    plain = malloc(100); // allocated: plain 100
    cleared = calloc(3, 50); // allocated: cleared 150
    larger = malloc(30);
    moved = malloc(64);
    KEEP;
    larger = realloc(larger, 31); // allocated: larger 31
    moved = realloc(moved, 100000); // allocated: moved 100000
    void *result;
    if (posix_memalign(&result, 64, 300)) // allocated: stored 300
        return 1;
    stored = result;
    aligned = aligned_alloc(128, 256); // allocated: aligned 256
    copied = strdup("thirty-one bytes and a zero more"); // allocated: copied 33
    run_threads();
    return 0;
}
