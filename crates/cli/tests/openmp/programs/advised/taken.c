// Programs of two threads with one loss each, by name, and the same with the advice taken.
#include <stdlib.h>

#include "../planted.h"

// Whether the advice is taken.
static int is_taken;

static void loop(void)
{
    // The first half takes three times as long.
    if (is_taken) {
#pragma omp parallel for schedule(dynamic, 1)
        for (int i = 0; i < 20; i++)
            work(i < 10 ? 30 : 10);
    } else {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < 20; i++)
            work(i < 10 ? 30 : 10);
    }
}

static void heavy_iteration(void)
{
    // Handed out one by one already: it is to start first.
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < 21; i++)
        work(i == (is_taken ? 0 : 20) ? 200 : 10);
}

static void sections(void)
{
#pragma omp parallel sections
    {
#pragma omp section
        work(is_taken ? 150 : 200);
#pragma omp section
        work(is_taken ? 150 : 100);
    }
}

static void tasks(void)
{
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 11; i++) {
        int is_long = i == (is_taken ? 0 : 10);
#pragma omp task firstprivate(is_long)
        work(is_long ? 100 : 10);
    }
}

static void chain(void)
{
    int place[20];
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 20; i++) {
        int *own = &place[is_taken ? i : 0];
#pragma omp task depend(inout : own[0])
        work(10);
    }
}

// Those that only read do not depend on each other, but on who writes, as he on them.
static void readers(void)
{
    int place;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 4; i++) {
        if (i == 1 || i == 2) {
#pragma omp task depend(in : place)
            work(40);
        } else {
#pragma omp task depend(out : place)
            work(40);
        }
    }
}

// Tasks that different tasks create do not depend on each other, whatever place they name. The first
// ones have ended when the others are created, which nothing demands.
static void creators(void)
{
    int place;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 2; i++) {
        if (i > 0)
            work(120);
#pragma omp task
        {
            for (int k = 0; k < 5; k++) {
#pragma omp task depend(inout : place)
                work(20);
            }
#pragma omp taskwait
        }
    }
}

static void serial(void)
{
    if (!is_taken)
        work(200);
#pragma omp parallel
    {
        if (is_taken)
            work(100);
        work(100);
    }
}

static void region_of_one(void)
{
    if (is_taken) {
#pragma omp parallel
        work(100);
    } else {
#pragma omp parallel num_threads(1)
        work(200);
    }
#pragma omp parallel
    work(100);
}

static void duplicated(void)
{
#pragma omp parallel
    {
        if (is_taken) {
#pragma omp for
            for (int i = 0; i < 2; i++)
                work(100);
        } else {
            work(200);
        }
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"loop", loop}, {"heavy_iteration", heavy_iteration}, {"sections", sections},
    {"tasks", tasks}, {"chain", chain}, {"readers", readers}, {"creators", creators}, {"serial", serial}, {"region_of_one", region_of_one},
    {"duplicated", duplicated},
};

int main(int count, char **words)
{
    planted_begin();
    omp_set_num_threads(2);
    is_taken = count > 2 && strcmp(words[2], "taken") == 0;
    for (size_t i = 0; count > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(words[1], kinds[i].name) == 0) {
            kinds[i].run();
            return 0;
        }
    return 1;
}
