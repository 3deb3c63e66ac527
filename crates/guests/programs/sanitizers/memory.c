// Built with the memory sanitizer: it finds a branch that depends on what was never written,
// and ends with its own status.
// compiler: clang
// flags: -O1 -fsanitize=memory -fno-omit-frame-pointer -pthread
// compare: status
// ending: exit 77
// trace: no
#include <pthread.h>
#include <sanitizer/msan_interface.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

// A status that nothing else ends with.
const char *__msan_default_options(void) { return "exitcode=77"; }

// The program before the error: what is written by others, the kernel among them, is known.
static void *write_and_read(void *argument) {
    int pipes[2];
    char text[8];
    EXPECT(pipe(pipes) == 0 && write(pipes[1], "12345678", 8) == 8);
    EXPECT(__msan_test_shadow(text, sizeof text) == 0);
    EXPECT(read(pipes[0], text, 6) == 6);
    EXPECT(__msan_test_shadow(text, sizeof text) == 6);
    EXPECT(memcmp(text, "123456", 6) == 0);
    for (int i = 1; i < 500; i++) {
        int *numbers = malloc(sizeof(int) * i);
        EXPECT(__msan_test_shadow(numbers, sizeof(int) * i) == 0);
        for (int j = 0; j < i; j++)
            numbers[j] = j;
        EXPECT(numbers[i - 1] == i - 1);
        free(numbers);
    }
    return argument;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, write_and_read, NULL) == 0);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    puts("known so far");
    fflush(stdout);
    int *volatile numbers = malloc(10 * sizeof(int));
    numbers[3] = 1;
    if (numbers[4])
        puts("by chance");
    return 0;
}
