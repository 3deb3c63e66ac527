// Counts what a program allocates by standing before the C library's `malloc`, as is usual without
// a tool: only calls that go by the dynamic linker's tables are seen.
//
//     gcc -O2 -shared -fPIC malloc_interposer.c -o malloc_interposer.so
//     LD_PRELOAD=./malloc_interposer.so PROGRAM
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_ulong blocks, bytes;

void *malloc(size_t size) {
    static void *(*_Atomic original)(size_t);
    if (original == NULL) original = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    void *block = original(size);
    if (block != NULL) {
        atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
    }
    return block;
}

__attribute__((destructor)) static void at_end(void) {
    fprintf(stderr, "%lu blocks allocated by malloc, %lu bytes\n", blocks, bytes);
}
