/* A five-point Jacobi stencil over a square grid: OpenMP, two threads, which share only
 * the rows at the border between them. Argument: number of sweeps. */
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 1000 };

static double grids[2][SIDE][SIDE];

int main(int argc, char **argv)
{
    int sweeps = argc > 1 ? atoi(argv[1]) : 10;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            grids[0][row][column] = grids[1][row][column] =
                (row * 31 + column * 17) % 101 / 101.0;

    for (int sweep = 0; sweep < sweeps; sweep++) {
        double (*from)[SIDE] = grids[sweep & 1];
        double (*to)[SIDE] = grids[(sweep & 1) ^ 1];
#pragma omp parallel for schedule(static) num_threads(2)
        for (int row = 1; row < SIDE - 1; row++)
            for (int column = 1; column < SIDE - 1; column++)
                to[row][column] = 0.5 * from[row][column]
                    + 0.125 * (from[row - 1][column] + from[row + 1][column]
                               + from[row][column - 1] + from[row][column + 1]);
    }

    double sum = 0;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            sum += grids[sweeps & 1][row][column] * (row ^ column);
    printf("stencil2d %d %.12e\n", sweeps, sum);
    return 0;
}
