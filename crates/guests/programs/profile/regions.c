// Burns known CPU time in two regions of interest and outside of them; in the first it also runs another
// thread, and starts a child. With a number, it enters and leaves a region so often instead.
// flags: -O2 -fomit-frame-pointer -pthread
// variants: static stripped

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profile/burn.h"
#include "unspool.h"

APART void inside(double seconds) {
    burn(seconds);
    asm volatile("");
}

APART void outside(double seconds) {
    burn(seconds);
    asm volatile("");
}

APART void inside_in_child(double seconds) {
    burn(seconds);
    asm volatile("");
}

static void *other_thread(void *nothing) {
    inside(0.1);
    return nothing;
}

static void *many(void *rounds) {
    for (long round = 0; round < *(long *)rounds; round++) {
        unspool_start_region();
        unspool_end_region();
    }
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t thread;
    if (count > 1) {
        long rounds = atol(arguments[1]);
        if (pthread_create(&thread, NULL, many, &rounds) != 0)
            return 1;
        many(&rounds);
        return pthread_join(thread, NULL);
    }
    outside(0.2);
    unspool_start_region();
    if (pthread_create(&thread, NULL, other_thread, NULL) != 0)
        return 1;
    inside(0.1);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        inside_in_child(0.1);
        unspool_end_region();
        outside(0.1);
        return 0;
    }
    int status;
    waitpid(child, &status, 0);
    unspool_end_region();
    outside(0.2);
    unspool_start_region();
    inside(0.1);
    usleep(100000);
    unspool_end_region();
    usleep(200000);
    return status;
}
