// A region for a program in another language.

void region(void)
{
    static volatile long spent;
#pragma omp parallel num_threads(2)
    for (int i = 0; i < 10000; i++)
        spent++;
}
