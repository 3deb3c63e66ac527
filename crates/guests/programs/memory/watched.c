// Two threads write to a word in several ways, and to the words beside it much more often.
// Prints where the word is if asked.
// flags: -O1 -g -no-pie -pthread
// arguments: none

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"

static volatile long words[3];

#define APART __attribute__((noinline, noipa))

APART void store(long value) { words[1] = value; }
APART void add(void) { __atomic_fetch_add(&words[1], 1, __ATOMIC_SEQ_CST); }
APART void store_byte(void) { ((volatile char *)&words[1])[7] = 0; }
APART void store_across(void) { memcpy((char *)words + 4, &(long){0}, 8); }
APART void fill(void) {
    void *to = (void *)words;
    unsigned long count = 3;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(7L) : "memory");
}
APART void beside(long value) {
    words[0] = value;
    words[2] = value + words[1];
    ((volatile char *)words)[7] = 0;
}

static void *work(void *unused) {
    for (int round = 0; round < 1000; round++)
        beside(round);
    add();
    return unused;
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1)
        printf("%p\n", (void *)&words[1]);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(words[1] == 1);
    store(3);
    store(4);
    store_byte();
    store_across();
    fill();
    EXPECT(words[1] == 7);
    return 0;
}
