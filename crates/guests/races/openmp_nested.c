// Regions within a region; the teams of the racy twin count in the same place without a lock.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
long value, values[2];
int main(void) {
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        int outer = omp_get_thread_num();
#pragma omp parallel num_threads(2)
        {
#pragma omp for
            for (int number = 0; number < 8; number++) {
#pragma omp atomic
                values[outer] += number;
            }
            UNLESS_RACY(_Pragma("omp critical"))
            value++; // race: value
        }
        values[outer]++;
    }
    return value + values[0] == 7;
}
