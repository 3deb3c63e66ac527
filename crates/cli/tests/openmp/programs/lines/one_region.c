// Two of each construct in one region. A line says at its end what is there.
#include <stdio.h>
int main(void) {
  double a = 0, b = 0;
  #pragma omp parallel num_threads(2) // at: parallel region
  {
    #pragma omp for schedule(dynamic, 4) // at: loop
    for (int i = 0; i < 100; i++) __asm__ volatile("");
    #pragma omp critical(one) // at: critical
    a += 1;
    #pragma omp for schedule(dynamic, 8) // at: loop
    for (int i = 0; i < 100; i++) __asm__ volatile("");
    #pragma omp critical(two) // at: critical
    b += 1;
    #pragma omp barrier // at: barrier
    #pragma omp single // at: single
    b += 2;
    #pragma omp master // at: master
    b += 3;
  }
  printf("%g %g\n", a, b);
}
