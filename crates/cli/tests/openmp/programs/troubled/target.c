// Target regions and transfers where there is no device: the host executes them. With the word
// `nowait`, one that another thread may execute.
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
    int sums[4] = {0};
#pragma omp target map(tofrom : sums)
    {
        usleep(100000);
        sums[0] = 1;
    }
#pragma omp target enter data map(to : sums)
#pragma omp target teams distribute parallel for num_teams(2) thread_limit(2) map(tofrom : sums)
    for (int i = 0; i < 4; i++) {
        usleep(50000);
        sums[i] += i;
    }
#pragma omp target update from(sums)
#pragma omp target exit data map(from : sums)
    if (count > 1 && !strcmp(words[1], "nowait")) {
#pragma omp target nowait map(tofrom : sums)
        {
            usleep(100000);
            sums[0]++;
        }
#pragma omp taskwait
        sums[0]--;
    }
    return sums[0] == 1 && sums[3] == 3 ? 0 : 1;
}
