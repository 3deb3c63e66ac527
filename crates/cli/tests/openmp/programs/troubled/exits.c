// A worker ends the process, by exit or by abort, while the others work and wait.
#include "../planted.h"
#include <stdlib.h>

int main(int count, char **words)
{
    int aborts = count > 1 && strcmp(words[1], "abort") == 0;
#pragma omp parallel num_threads(3)
    {
        int number = omp_get_thread_num();
        work(100);
        if (number == 1) {
            work(200);
            if (aborts)
                abort();
            exit(3);
        }
#pragma omp barrier
        work(100000);
    }
    return 0;
}
