// The program's own LD_PRELOAD and LD_LIBRARY_PATH: libraries are put before others, found
// in other folders, and so in the children.
// flags: -O1 -D_GNU_SOURCE
// plugins: parts/preloaded.c
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "expect.h"

int main(int count, char **arguments) {
    char folder[4096], path[8192];
    char *own = realpath("/proc/self/exe", NULL);
    EXPECT(own);
    strcpy(folder, own);
    *strrchr(folder, '/') = 0;
    snprintf(path, sizeof path, "%s/preloaded.so", folder);
    if (count == 1) {
        EXPECT(getuid() != 4711);
        EXPECT(setenv("LD_PRELOAD", path, 1) == 0 && setenv("LD_LIBRARY_PATH", folder, 1) == 0);
        execl(own, own, "parent", (char *)NULL);
        return 1;
    }
    EXPECT(getuid() == 4711 && strcmp(getenv("LD_PRELOAD"), path) == 0);
    EXPECT(strcmp(getenv("LD_LIBRARY_PATH"), folder) == 0);
    EXPECT(dlopen("preloaded.so", RTLD_NOW | RTLD_NOLOAD) && dlopen("preloaded.so", RTLD_NOW));
    printf("%s\n", arguments[1]);
    fflush(stdout);
    if (strcmp(arguments[1], "child") == 0)
        return 0;
    pid_t child = fork();
    if (child == 0) {
        execl(own, own, "child", (char *)NULL);
        _exit(1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
