/* Conjugate gradients on a sparse matrix in compressed rows: OpenMP, two threads.
 * The matrix is a five-point grid with a few far couplings, so that the gathers miss.
 * Argument: number of iterations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 300, ROWS = SIDE * SIDE, MOST_IN_ROW = 7 };

static int row_start[ROWS + 1], columns[ROWS * MOST_IN_ROW];
static double values[ROWS * MOST_IN_ROW];
static double solution[ROWS], residual[ROWS], direction[ROWS], product[ROWS];

/* An involution without fixed points, so that the far couplings are symmetric. */
static int far_partner(int row) { return ROWS - 1 - row; }

static void assemble(void)
{
    int filled = 0;
    for (int row = 0; row < ROWS; row++) {
        int x = row % SIDE, y = row / SIDE;
        row_start[row] = filled;
        columns[filled] = row, values[filled++] = 5.0;
        if (y > 0) columns[filled] = row - SIDE, values[filled++] = -1.0;
        if (x > 0) columns[filled] = row - 1, values[filled++] = -1.0;
        if (x < SIDE - 1) columns[filled] = row + 1, values[filled++] = -1.0;
        if (y < SIDE - 1) columns[filled] = row + SIDE, values[filled++] = -1.0;
        columns[filled] = far_partner(row), values[filled++] = -0.5;
    }
    row_start[ROWS] = filled;
}

/* With two threads a sum of two partial sums is the same in either order. */
static double dot(const double *left, const double *right)
{
    double sum = 0;
#pragma omp parallel for schedule(static) num_threads(2) reduction(+ : sum)
    for (int i = 0; i < ROWS; i++)
        sum += left[i] * right[i];
    return sum;
}

static void multiply(const double *vector, double *result)
{
#pragma omp parallel for schedule(static) num_threads(2)
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int entry = row_start[row]; entry < row_start[row + 1]; entry++)
            sum += values[entry] * vector[columns[entry]];
        result[row] = sum;
    }
}

int main(int argc, char **argv)
{
    int iterations = argc > 1 ? atoi(argv[1]) : 10;
    assemble();
    for (int i = 0; i < ROWS; i++)
        residual[i] = direction[i] = 1.0 + i % 13;
    double old_norm = dot(residual, residual), start_norm = old_norm;

    for (int iteration = 0; iteration < iterations; iteration++) {
        multiply(direction, product);
        double step = old_norm / dot(direction, product);
#pragma omp parallel for schedule(static) num_threads(2)
        for (int i = 0; i < ROWS; i++) {
            solution[i] += step * direction[i];
            residual[i] -= step * product[i];
        }
        double norm = dot(residual, residual);
        double ratio = norm / old_norm;
        old_norm = norm;
#pragma omp parallel for schedule(static) num_threads(2)
        for (int i = 0; i < ROWS; i++)
            direction[i] = residual[i] + ratio * direction[i];
        /* Start anew once converged, so that the numbers stay normal for any argument. */
        if (norm < 1e-12 * start_norm) {
            for (int i = 0; i < ROWS; i++)
                residual[i] = direction[i] = 1.0 + (i + iteration) % 13;
            old_norm = dot(residual, residual);
        }
    }
    printf("conjugate_gradient %d %.10e %.10e\n", iterations, sqrt(old_norm),
           dot(solution, solution));
    return 0;
}
