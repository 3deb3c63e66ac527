// Repeated string instructions, each over its thread's part, or over one byte too many.
#include "twin.h"
char bytes[64];
static void work(long number) {
    char *to = bytes + number * 32;
    long count = 32 IF_RACY(+ (number == 0));
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(number) : "memory"); // race: bytes
    KEEP;
}
int main(void) {
    run_threads();
    return bytes[0] == 77;
}
