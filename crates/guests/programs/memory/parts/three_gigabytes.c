// 3 GB of static data, for which the compiler is told so: more than there is below 2 GiB.
// flags: -O2 -mcmodel=medium -no-pie -fno-pie
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"

#define SIZE (3ul << 30)
#define STEP (64ul << 20)

static char data[SIZE];

static int ascending(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

int main(void) {
    for (size_t at = 0; at < SIZE; at += STEP) data[at] = (char)(SIZE / STEP - at / STEP);
    for (size_t at = 0; at < SIZE; at += STEP) EXPECT(data[at] == (char)(SIZE / STEP - at / STEP));
    char some[16];
    for (int i = 0; i < 16; i++) some[i] = data[i * STEP];
    qsort(some, 16, 1, ascending);
    for (int i = 0; i < 16; i++) EXPECT(some[i] == data[(15 - i) * STEP]);
    puts("all there");
    return 0;
}
