// Uses OpenMP, then forks a child that uses it too.
#include "../planted.h"
#include <sys/wait.h>
#include <unistd.h>

static void region(void)
{
#pragma omp parallel for num_threads(2) schedule(dynamic, 1)
    for (int i = 0; i < 2; i++)
        work(20);
}

int main(void)
{
    // libgomp's threads do not exist in the child, so that it must be the first to use them.
    pid_t child = fork();
    region();
    if (child == 0)
        return 0;
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
