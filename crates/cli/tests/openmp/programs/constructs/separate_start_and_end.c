// Regions as gcc before 4.9 had them: a call that starts the other threads, the body, and a call that
// joins. Two threads; the second region nests one of two threads in each, and the last has one thread.
// seen: gcc 19 parallel region
// seen: gcc 8 loop
// seen: gcc 2 sections
// seen: gcc 2 barrier
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>

typedef void body_of_region(void *);
void GOMP_parallel_start(body_of_region *, void *, unsigned);
void GOMP_parallel_loop_static_start(body_of_region *, void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_dynamic_start(body_of_region *, void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_guided_start(body_of_region *, void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_runtime_start(body_of_region *, void *, unsigned, long, long, long);
void GOMP_parallel_sections_start(body_of_region *, void *, unsigned, unsigned);
void GOMP_parallel_end(void);
bool GOMP_loop_static_next(long *, long *);
bool GOMP_loop_dynamic_next(long *, long *);
bool GOMP_loop_guided_next(long *, long *);
bool GOMP_loop_runtime_next(long *, long *);
void GOMP_loop_end_nowait(void);
unsigned GOMP_sections_next(void);
void GOMP_sections_end_nowait(void);
void GOMP_barrier(void);

static long count;

static void add(long more) { __atomic_fetch_add(&count, more, __ATOMIC_RELAXED); }

static void with_barrier(void *unused) {
    GOMP_barrier();
    add(1);
}

static void inner(void *unused) { add(1); }

static void outer(void *unused) {
    GOMP_parallel_start(inner, NULL, 2);
    inner(NULL);
    GOMP_parallel_end();
}

// Regions that consist of a loop: its first part is fetched as all others are.
#define LOOP(schedule)                                                                                 \
    static void loop_##schedule(void *unused) {                                                        \
        long first, end;                                                                               \
        while (GOMP_loop_##schedule##_next(&first, &end))                                              \
            add(end - first);                                                                          \
        GOMP_loop_end_nowait();                                                                        \
    }
LOOP(static)
LOOP(dynamic)
LOOP(guided)
LOOP(runtime)

static void sections(void *unused) {
    while (GOMP_sections_next() != 0)
        add(1);
    GOMP_sections_end_nowait();
}

#define REGION(body, start)                                                                            \
    start;                                                                                             \
    body(NULL);                                                                                        \
    GOMP_parallel_end();

int main(void) {
    omp_set_max_active_levels(2);
    REGION(with_barrier, GOMP_parallel_start(with_barrier, NULL, 2))
    REGION(outer, GOMP_parallel_start(outer, NULL, 2))
    REGION(loop_static, GOMP_parallel_loop_static_start(loop_static, NULL, 0, 0, 100, 1, 0))
    REGION(loop_dynamic, GOMP_parallel_loop_dynamic_start(loop_dynamic, NULL, 0, 0, 100, 1, 3))
    REGION(loop_guided, GOMP_parallel_loop_guided_start(loop_guided, NULL, 0, 0, 100, 1, 1))
    REGION(loop_runtime, GOMP_parallel_loop_runtime_start(loop_runtime, NULL, 0, 0, 100, 1))
    REGION(sections, GOMP_parallel_sections_start(sections, NULL, 2, 5))
    REGION(inner, GOMP_parallel_start(inner, NULL, 1))
    if (count != 2 + 4 + 4 * 100 + 5 + 1) {
        printf("%ld\n", count);
        return 1;
    }
    return 0;
}
