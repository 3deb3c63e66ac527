// Nested regions, as often as the first word says. GNU's runtime starts threads for each.
#include <omp.h>
#include <stdlib.h>

int main(int count, char **words)
{
    int passages = count > 1 ? atoi(words[1]) : 1;
    long sum = 0;
    omp_set_max_active_levels(2);
    for (int i = 0; i < passages; i++) {
#pragma omp parallel num_threads(2) reduction(+ : sum)
        {
#pragma omp parallel for num_threads(2) reduction(+ : sum)
            for (int j = 0; j < 4; j++)
                sum += j;
        }
    }
    return sum == 12L * passages ? 0 : 1;
}
