// Thread-local variables of each kind, keys with destructors that run again for values
// they set, and once-only initialisation.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

static _Thread_local int initialised = 7;
static _Thread_local char zeroed[200];
static __thread _Alignas(64) int aligned = 3;
static pthread_key_t key, second_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int destroyed, destroyed_again, initialisations;

static void destroy(void *value) {
    destroyed += (int)(intptr_t)value;
    if ((intptr_t)value > 1)
        pthread_setspecific(second_key, value);
}

static void destroy_again(void *value) {
    destroyed_again += (int)(intptr_t)value;
}

static void initialise(void) {
    initialisations++;
}

static void *run(void *argument) {
    EXPECT(initialised == 7 && aligned == 3 && zeroed[0] == 0 && zeroed[199] == 0);
    EXPECT((uintptr_t)&aligned % 64 == 0);
    initialised += (int)(intptr_t)argument;
    memset(zeroed, initialised, sizeof zeroed);
    pthread_once(&once, initialise);
    pthread_setspecific(key, argument);
    return (void *)(intptr_t)(initialised + zeroed[100]);
}

int main(void) {
    pthread_key_create(&key, destroy);
    pthread_key_create(&second_key, destroy_again);
    initialised = 100;
    for (intptr_t i = 1; i <= 8; i++) {
        pthread_t thread;
        void *result;
        EXPECT(pthread_create(&thread, NULL, run, (void *)i) == 0);
        EXPECT(pthread_join(thread, &result) == 0);
        EXPECT((intptr_t)result == 2 * (7 + i));
    }
    EXPECT(initialised == 100 && zeroed[5] == 0);
    printf("%d %d %d\n", destroyed, destroyed_again, initialisations);
    return 0;
}
