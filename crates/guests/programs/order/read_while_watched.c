// Memory into which one thread has the kernel read while another one looks at it, which does much
// less between.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdlib.h>

#include "expect.h"

static volatile int word;
static volatile int done;
static int ends[2];

static void *read_it(void *unused) {
    volatile int busy[64];
    for (int i = 1; i <= 50; i++) {
        for (int j = 0; j < 20000; j++)
            busy[j % 64] = j;
        EXPECT(busy[0] > 0);
        EXPECT(read(ends[0], (void *)&word, sizeof word) == sizeof word);
        usleep(300);
    }
    done = 1;
    return unused;
}

int main(void) {
    pthread_t thread;
    long seen = 0;
    EXPECT(pipe(ends) == 0);
    EXPECT(pthread_create(&thread, NULL, read_it, NULL) == 0);
    for (int i = 1; i <= 50; i++) {
        usleep(100);
        seen += word;
        EXPECT(write(ends[1], &i, sizeof i) == sizeof i);
        while (!done && word != i)
            usleep(50);
    }
    pthread_join(thread, NULL);
    EXPECT(word == 50);
    printf("%d\n", word);
    return 0;
}
