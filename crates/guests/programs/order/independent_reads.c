// Independent reads of independent writes: two readers never see two writes in opposite
// orders.
// flags: -O2 -pthread
#include "litmus.h"

enum { ROUNDS = 1000 };

static struct meeting start = {.threads = 4}, end = {.threads = 4};
static _Alignas(64) atomic_int x;
static _Alignas(64) atomic_int y;
static _Alignas(64) int seen[2][2];

static void *take_part(void *argument) {
    int part = (int)(size_t)argument;
    for (int i = 1; i <= ROUNDS; i++) {
        meet(&start);
        if (part < 2) {
            atomic_store_explicit(part == 0 ? &x : &y, i, memory_order_release);
        } else {
            atomic_int *first = part == 2 ? &x : &y, *second = part == 2 ? &y : &x;
            seen[part - 2][0] = atomic_load_explicit(first, memory_order_acquire);
            seen[part - 2][1] = atomic_load_explicit(second, memory_order_acquire);
        }
        meet(&end);
        if (part == 0) {
            int x_before_y = seen[0][0] == i && seen[0][1] != i;
            int y_before_x = seen[1][0] == i && seen[1][1] != i;
            EXPECT(!(x_before_y && y_before_x));
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, take_part, (void *)i) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    puts("the readers agreed");
    return 0;
}
