// Each rank has a loop; the second's takes three times as long, so that the first waits for
// it in MPI.
#include "../planted.h"
#include <mpi.h>

int main(int count, char **words)
{
    int rank, provided;
    MPI_Init_thread(&count, &words, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
#pragma omp parallel for schedule(dynamic, 1) num_threads(2)
    for (int i = 0; i < 2; i++)
        work(200 + 400 * rank);
    int sum, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum == 2 ? 0 : 1;
}
