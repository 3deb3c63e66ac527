// Opens, calls and closes a shared library again and again; its constructor, destructor and
// thread-local variable start afresh each time.
// flags: -O2 -pthread
// plugins: parts/plugin.c
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static int constructed, destructed;

static void *in_thread(void *next) {
    EXPECT(((int (*)(void))next)() == 101);
    return NULL;
}

int main(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s", realpath("/proc/self/exe", NULL));
    strcpy(strrchr(path, '/') + 1, "plugin.so");
    for (int i = 0; i < 100; i++) {
        void *library = dlopen(path, RTLD_NOW);
        if (library == NULL)
            fprintf(stderr, "%s\n", dlerror());
        EXPECT(library != NULL);
        int (*next)(void) = (int (*)(void))dlsym(library, "plugin_next");
        void (*on_close)(int *) = (void (*)(int *))dlsym(library, "plugin_on_close");
        EXPECT(next() == 101 && next() == 102 && next() == 103);
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, in_thread, (void *)next) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
        on_close(&destructed);
        constructed++;
        EXPECT(dlclose(library) == 0 && destructed == constructed);
        // Something else takes the place of the library's code.
        free(malloc(1 << 20));
    }
    EXPECT(dlopen("/no/such/library.so", RTLD_NOW) == NULL && strstr(dlerror(), "no/such"));
    printf("%d times\n", destructed);
    return 0;
}
