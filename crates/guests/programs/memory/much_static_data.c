// 1.9 GB of static data in a program with fixed addresses, as Fortran's common blocks have them:
// it covers where other programs have their libraries. The libraries' code calls it and is called
// by it; it has threads, signals and children.
// flags: -O2 -no-pie -fno-pie -D_GNU_SOURCE -pthread
// trace: no
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define SIZE (1900ul << 20)
#define STEP (1ul << 20)
#define THREADS 4

static char data[SIZE];
static atomic_int signals;

static void count(int signal) {
    (void)signal;
    atomic_fetch_add(&signals, 1);
}

static int descending(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x < y) - (x > y);
}

static void *fill(void *argument) {
    size_t number = (size_t)argument;
    for (size_t at = number * STEP; at < SIZE; at += THREADS * STEP) {
        data[at] = (char)(at / STEP);
        if (at % (64 * STEP) == 0) EXPECT(raise(SIGUSR1) == 0);
    }
    int numbers[1000];
    for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1000;
    qsort(numbers, 1000, sizeof *numbers, descending);
    for (int i = 0; i < 1000; i++) EXPECT(numbers[i] == 999 - i);
    return NULL;
}

int main(void) {
    EXPECT((uintptr_t)data < 1ul << 31 && (uintptr_t)data + SIZE > 1800ul << 20);
    EXPECT(signal(SIGUSR1, count) != SIG_ERR);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, fill, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(atomic_load(&signals) == (SIZE + 64 * STEP - 1) / (64 * STEP));
    for (size_t at = 0; at < SIZE; at += STEP) EXPECT(data[at] == (char)(at / STEP));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        data[SIZE - 1] = 1;
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    EXPECT(data[SIZE - 1] == 0);
    puts("all there");
    return 0;
}
