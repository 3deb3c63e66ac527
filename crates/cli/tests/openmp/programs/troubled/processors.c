// Work that takes processor time: so many seconds of it in all, in twenty passages that are
// divided among the threads evenly, or done by the first alone; on all processors, or on one.
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double processor_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void work(double seconds)
{
    double end = processor_time() + seconds;
    while (processor_time() < end) {
    }
}

int main(int count, char **words)
{
    double seconds = atof(words[1]) / 20;
    int alone = count > 2 && !strcmp(words[2], "alone");
    if (count > 2 && !strcmp(words[2], "pinned")) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        if (sched_setaffinity(0, sizeof one, &one))
            return 1;
    }
    for (int passage = 0; passage < 20; passage++) {
#pragma omp parallel
        {
            int first = omp_get_thread_num() == 0;
            if (!alone)
                work(seconds / omp_get_num_threads());
            else if (first)
                work(seconds);
        }
    }
    return 0;
}
