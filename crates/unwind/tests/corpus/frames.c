/* Functions with frames of all kinds that compilers build. What they compute means nothing. */
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline))

static volatile long kept;

struct large {
    long words[40];
};

APART long leaf(long a, long b) { return a * 3 + b; }

APART long of_variable_length(int count) {
    long words[count];
    for (int i = 0; i < count; i++)
        words[i] = leaf(i, count);
    return words[count / 2] + words[count - 1];
}

APART long with_alloca(int count) {
    long sum = 0;
    for (int i = 1; i < count; i++) {
        char *bytes = alloca(i);
        memset(bytes, i, i);
        sum += bytes[i - 1];
        kept += (long)bytes;
    }
    return sum;
}

APART long aligned(long seed) {
    _Alignas(64) long words[16];
    for (int i = 0; i < 16; i++)
        words[i] = seed + leaf(i, seed);
    kept += words[seed & 15];
    return words[0] + words[15];
}

APART long of_pages(long seed) {
    char bytes[20000];
    memset(bytes, (int)seed, sizeof bytes);
    return bytes[seed & 1023] + leaf(seed, bytes[19999]);
}

APART struct large by_value(struct large one, struct large other, long index) {
    one.words[index & 31] += other.words[index & 15];
    return one;
}

APART long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
    return a + b * c - d + e * f - g + h * i - j + leaf(a, j);
}

/* Most calls go through without a frame: shrink-wrapping builds it only where it is needed. */
APART long seldom(long value, char **texts) {
    if (__builtin_expect(value < 1000, 1))
        return value * 2;
    long sum = 0;
    for (long i = 0; i < value % 7; i++) {
        sum += leaf(i, value) + (texts[i & 1] ? (long)strlen(texts[i & 1]) : 0);
        kept += sum * leaf(sum, i);
    }
    return sum + leaf(sum, value);
}

__attribute__((cold, noreturn, noinline)) static void gives_up(const char *why, long value) {
    fprintf(stderr, "%s: %ld\n", why, value);
    exit(3);
}

APART long checked(long value) {
    if (value == -77)
        gives_up("that value", value);
    long half = value / 2;
    if (half == -1234567)
        gives_up("that half", half);
    return leaf(value, half);
}

APART long chosen(int which, long value) {
    switch (which) {
    case 0: return leaf(value, 1);
    case 1: return many(1, 2, 3, value, 5, 6, 7, 8, 9, 10);
    case 2: return of_pages(value);
    case 3: kept += value; return leaf(kept, value) + leaf(value, kept);
    case 4: return checked(value) ^ 5;
    case 5: return aligned(value) / 3;
    case 6: { struct large one = {{value}}; return by_value(one, one, value).words[3]; }
    case 7: return value << 3;
    default: return with_alloca(which & 7) + 1;
    }
}

APART long sum_of(int count, ...) {
    va_list values;
    va_start(values, count);
    long sum = 0;
    for (int i = 0; i < count; i++)
        sum += i & 1 ? va_arg(values, long) : (long)va_arg(values, double);
    va_end(values);
    return sum + leaf(sum, count);
}

static jmp_buf back;

APART void jumps(long value) {
    if (value > 3)
        longjmp(back, (int)value);
    kept += leaf(value, value);
}

APART long lands(long value) {
    volatile long own = value;
    int came = setjmp(back);
    if (came != 0)
        return own + came;
    jumps(own);
    return own;
}

APART long even(long depth);
APART long odd(long depth) { return depth == 0 ? 0 : even(depth - 1); }
APART long even(long depth) { return depth == 0 ? 1 : odd(depth - 1); }

APART long through(long (*function)(long, long), long value) {
    long first = function(value, 1);
    return first + function(first, value);
}

static int compare(const void *one, const void *other) {
    long difference = *(const long *)one - *(const long *)other;
    return (difference > 0) - (difference < 0);
}

APART double floats(double a, double b, long count) {
    double sum = 0;
    for (long i = 0; i < count; i++)
        sum += a * (double)leaf(i, count) / (b + (double)i);
    return sum;
}

int main(int count, char **texts) {
    long sum = of_variable_length(count + 7) + with_alloca(count + 20) + aligned(count);
    struct large one = {{1, 2, 3}};
    sum += of_pages(count) + by_value(one, one, count).words[2] + seldom(2000 + count, texts);
    for (int which = 0; which < 9; which++)
        sum += chosen(which, sum & 255);
    sum += sum_of(4, 1.5, 2L, 3.5, 4L) + lands(count) + lands(count + 5) + even(count + 10);
    long words[64];
    for (int i = 0; i < 64; i++)
        words[i] = leaf(i * 37 % 64, count);
    qsort(words, 64, sizeof words[0], compare);
    sum += through(leaf, words[5]) + (long)floats(1.5, 2.5, words[9] & 63) + checked(count);
    printf("%ld\n", sum + kept);
    return 0;
}
