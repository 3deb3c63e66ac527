// Spends equal shares of its CPU time through a library that it opens, in an inlined function, and
// below a recursion with more than 16 KiB of stack.
// flags: -O2 -g -fomit-frame-pointer
// libraries: -ldl
// plugins: parts/carrier.c

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/burn.h"

#define INLINED static inline __attribute__((always_inline))

INLINED double multiplied(double value, int times) {
    volatile double product = value;
    for (int i = 0; i < times; i++)
        product = product * 1.0000001;
    return product;
}

APART double inlines(double seconds) {
    double end = now() + seconds, value = 1;
    while (now() < end)
        value = multiplied(value, 20000) / value;
    return value;
}

// Each frame has at least 64 bytes.
APART double descend(int depth, double seconds) {
    volatile char room[48];
    room[depth % 48] = 1;
    double value = depth == 0 ? burn(seconds) : descend(depth - 1, seconds);
    return value + room[depth % 48];
}

int main(void) {
    char path[4096];
    if (realpath("/proc/self/exe", path) == NULL)
        return 1;
    strcpy(strrchr(path, '/') + 1, "carrier.so");
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *symbol = dlsym(library, "carry");
    double (*carry)(double (*)(double), double);
    memcpy(&carry, &symbol, sizeof carry);
    double value = carry(burn, 0.3) + inlines(0.3) + descend(400, 0.3);
    return value > 0 ? 0 : 2;
}
