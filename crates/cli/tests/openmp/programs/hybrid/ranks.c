// Each rank has a loop, and each takes longer than the rank's before, so that all wait for
// the last in MPI.
#include "../planted.h"
#include <mpi.h>

int main(int count, char **words)
{
    int rank, ranks, provided;
    MPI_Init_thread(&count, &words, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    planted_begin();
#pragma omp parallel for schedule(dynamic, 1) num_threads(2)
    for (int i = 0; i < 2; i++)
        work(200 + 400 * rank);
    int sum, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    planted_end();
    MPI_Finalize();
    return sum == ranks ? 0 : 1;
}
