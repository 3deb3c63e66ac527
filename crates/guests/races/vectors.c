// Stores of whole vectors that are not aligned, side by side, or one byte into each other.
#include "twin.h"
typedef char Vector __attribute__((vector_size(16), aligned(1)));
char bytes[48];
static void work(long number) {
    char *to = bytes + 3 + 16 * number IF_RACY(- number);
    *(Vector *)to = (Vector){(char)number}; // race: bytes
    KEEP;
}
int main(void) {
    run_threads();
    return bytes[0] == 77;
}
