// Two thousand short threads, some detached, some on stacks of the program's own.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "expect.h"

static atomic_int ran;

static void *run(void *argument) {
    atomic_fetch_add(&ran, 1);
    return argument;
}

int main(void) {
    size_t stack_size = 64 * 1024;
    void *stack = aligned_alloc(4096, stack_size);
    for (size_t i = 0; i < 2000; i++) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (i % 3 == 0)
            pthread_attr_setstack(&attributes, stack, stack_size);
        if (i % 3 == 1)
            pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        EXPECT(pthread_create(&thread, &attributes, run, (void *)i) == 0);
        if (i % 3 == 1) {
            while (atomic_load(&ran) <= (int)i)
                usleep(50);
        } else {
            void *result;
            EXPECT(pthread_join(thread, &result) == 0 && result == (void *)i);
        }
    }
    printf("%d\n", atomic_load(&ran));
    return 0;
}
