// Two threads that access the same bytes by repeated string instructions alone: one sets them, the
// other moves, compares and searches them, upwards and downwards.
// flags: -O1 -pthread
// arguments: 300
#include <pthread.h>
#include <stdlib.h>

#include "expect.h"

enum { BYTES = 512 };
static char shared[BYTES], taken[BYTES];
static int rounds;

static void *set(void *unused)
{
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        char *to = shared;
        long count = BYTES;
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(i % 100) : "memory");
    }
    return 0;
}

static void move(void)
{
    char *to = taken, *from = shared;
    long count = BYTES;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
    EXPECT(count == 0);
}

static void move_down(void)
{
    char *to = taken + BYTES - 8, *from = shared + BYTES - 8;
    long count = BYTES / 8;
    __asm__ volatile("std\n rep movsq\n cld" : "+D"(to), "+S"(from), "+c"(count)::"memory");
    EXPECT(count == 0);
}

static void compare(void)
{
    char *one = shared, *other = taken;
    long count = BYTES;
    __asm__ volatile("repe cmpsb" : "+D"(one), "+S"(other), "+c"(count)::"memory", "cc");
    EXPECT(count >= 0);
}

static void search(void)
{
    char *in = shared;
    long count = BYTES;
    __asm__ volatile("repne scasb" : "+D"(in), "+c"(count) : "a"(101) : "memory", "cc");
    EXPECT(count == 0);
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2);
    rounds = atoi(argv[1]);
    pthread_t thread;
    EXPECT(pthread_create(&thread, 0, set, 0) == 0);
    for (int i = 0; i < rounds; i++) {
        move();
        compare();
        search();
        move_down();
    }
    pthread_join(thread, 0);
    return 0;
}
