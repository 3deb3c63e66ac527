// One thread changes a word a known number of times, while others do nothing but system calls;
// then it has the kernel change it as often.
// flags: -g -O1 -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLERS = 2, ROUNDS = 40 };

volatile long word;
atomic_int done;

__attribute__((noinline)) static void change(long to) { word = to; }

static void *call(void *nothing) {
    while (!done) syscall(SYS_getppid);
    return nothing;
}

// The kernel writes the word.
__attribute__((noinline)) static void have_changed(int *ends, long to) {
    if (write(ends[1], &to, sizeof to) != sizeof to) _exit(2);
    if (read(ends[0], (void *)&word, sizeof word) != sizeof word) _exit(3);
}

int main(void) {
    pthread_t threads[CALLERS];
    int ends[2];
    if (pipe(ends) != 0) return 1;
    for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, call, NULL);
    for (long round = 0; round < ROUNDS; round++) change(round + 1);
    done = 1;
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    for (long round = 0; round < ROUNDS; round++) have_changed(ends, round + ROUNDS + 1);
    printf("%ld\n", word);
    return 0;
}
