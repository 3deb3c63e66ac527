// A program that is linked between 1.8 and 2 GiB runs there, with its libraries where they fit: its
// code and data lie from 0x75000000 on.
// flags: -O2 -no-pie -fno-pie -Wl,-Ttext-segment=0x74fff000
// trace: no
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"

static int descending(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x < y) - (x > y);
}

int main(void) {
    static int data = 1;
    EXPECT((uintptr_t)main >> 24 == 0x75 && (uintptr_t)&data >> 24 == 0x75 && data == 1);
    int numbers[1000];
    for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1000;
    qsort(numbers, 1000, sizeof *numbers, descending);
    for (int i = 0; i < 1000; i++) EXPECT(numbers[i] == 999 - i);
    printf("main at %p\n", (void *)main);
    return 0;
}
