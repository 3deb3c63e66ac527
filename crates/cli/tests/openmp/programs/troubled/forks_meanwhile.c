// While one thread comes to ever new constructs, another forks children that use OpenMP too.
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_done;

static void deeper(int depth)
{
#pragma omp parallel num_threads(1)
    if (depth && !__atomic_load_n(&is_done, __ATOMIC_RELAXED))
        deeper(depth - 1);
}

static void *go_deeper(void *nothing)
{
    deeper(900);
    return nothing;
}

int main(void)
{
    omp_set_max_active_levels(1000);
    for (int i = 0; i < 30; i++) {
        pthread_t thread;
        is_done = 0;
        if (pthread_create(&thread, 0, go_deeper, 0))
            return 1;
        usleep(300 + i * 100);
        pid_t child = fork();
        if (child == 0) {
            int threads = 0;
            alarm(10);
#pragma omp parallel num_threads(1)
            threads = omp_get_num_threads();
            exit(threads != 1);
        }
        int status;
        __atomic_store_n(&is_done, 1, __ATOMIC_RELAXED);
        if (waitpid(child, &status, 0) != child || status || pthread_join(thread, 0))
            return 2;
    }
    return 0;
}
