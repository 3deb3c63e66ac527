/* Prices European options in closed form: two POSIX threads over separate halves, with
 * exp, log and sqrt in the inner loop. Built twice: scalar, and vectorised by the compiler
 * (which then calls the vector forms of exp and log). Argument: number of repetitions. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPTIONS = 100000, THREADS = 2 };

static double spot[OPTIONS], strike[OPTIONS], rate[OPTIONS], volatility[OPTIONS];
static double years[OPTIONS], price[OPTIONS];
static int repetitions;

/* Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17. */
static inline double normal_distribution(double x)
{
    double distance = fabs(x);
    double k = 1.0 / (1.0 + 0.2316419 * distance);
    double polynomial = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937
                        + k * (-1.821255978 + k * 1.330274429))));
    double tail = 0.3989422804014327 * exp(-0.5 * distance * distance) * polynomial;
    return x < 0 ? tail : 1.0 - tail;
}

static void *price_share(void *argument)
{
    long share = (long)argument;
    int first = share * (OPTIONS / THREADS), end = first + OPTIONS / THREADS;
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int i = first; i < end; i++) {
            double spread = volatility[i] * sqrt(years[i]);
            double upper = (log(spot[i] / strike[i])
                            + (rate[i] + 0.5 * volatility[i] * volatility[i]) * years[i]) / spread;
            double lower = upper - spread;
            price[i] = spot[i] * normal_distribution(upper)
                - strike[i] * exp(-rate[i] * years[i]) * normal_distribution(lower);
        }
    return NULL;
}

int main(int argc, char **argv)
{
    repetitions = argc > 1 ? atoi(argv[1]) : 5;
    for (int i = 0; i < OPTIONS; i++) {
        spot[i] = 40.0 + i % 61;
        strike[i] = 35.0 + i % 73;
        rate[i] = 0.01 + i % 7 * 0.005;
        volatility[i] = 0.1 + i % 11 * 0.03;
        years[i] = 0.25 + i % 5 * 0.5;
    }
    pthread_t threads[THREADS];
    for (long share = 0; share < THREADS; share++)
        pthread_create(&threads[share], NULL, price_share, (void *)share);
    for (int share = 0; share < THREADS; share++)
        pthread_join(threads[share], NULL);
    double sum = 0;
    for (int i = 0; i < OPTIONS; i++)
        sum += price[i];
    printf("black_scholes %d %.9e\n", repetitions, sum);
    return 0;
}
