// Loads each plugin that is named, for itself alone, and calls it three times.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words)
{
    void *first = 0;
    for (int passage = 0; passage < 3; passage++)
        for (int i = 1; i < count; i++) {
            void *plugin = dlopen(words[i], RTLD_NOW | RTLD_LOCAL);
            if (!plugin) {
                puts(dlerror());
                return 1;
            }
            void *runtime;
            int sum = ((int (*)(void **))dlsym(plugin, "run"))(&runtime);
            if (!first)
                first = runtime;
            fprintf(stderr, "%d by %s\n", sum, runtime == first ? "the first runtime" : "another");
        }
    return 0;
}
