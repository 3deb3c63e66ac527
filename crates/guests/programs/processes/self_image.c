// What a program learns about itself from /proc, the auxiliary vector and its headers.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "expect.h"

static int first_is_me(struct dl_phdr_info *information, size_t size, void *found) {
    (void)size;
    for (int i = 0; i < information->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &information->dlpi_phdr[i];
        ElfW(Addr) start = information->dlpi_addr + segment->p_vaddr;
        ElfW(Addr) me = (ElfW(Addr))first_is_me;
        if (segment->p_type == PT_LOAD && me >= start && me < start + segment->p_memsz)
            *(int *)found = (segment->p_flags & PF_X) != 0;
    }
    return 1;
}

int main(int count, char **arguments) {
    char path[4096] = "", line[4096];
    EXPECT(count == 1 && readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    char *resolved = realpath(arguments[0], NULL);
    EXPECT(resolved && strcmp(path, resolved) == 0);
    EXPECT(strcmp(strrchr(path, '/') + 1, program_invocation_short_name) == 0);
    EXPECT(realpath((char *)getauxval(AT_EXECFN), NULL) && getauxval(AT_PAGESZ) == 4096);

    // This function's own address lies in an executable mapping of this file.
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0, stack = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char permissions[5];
        EXPECT(sscanf(line, "%lx-%lx %4s", &start, &end, permissions) == 3);
        unsigned long me = (unsigned long)main;
        if (me >= start && me < end)
            found = strchr(permissions, 'x') && strstr(line, path);
        if ((unsigned long)line >= start && (unsigned long)line < end)
            stack = strchr(permissions, 'w') != NULL;
    }
    EXPECT(found && stack);

    char command[100] = "";
    FILE *file = fopen("/proc/self/cmdline", "r");
    EXPECT(fread(command, 1, sizeof command - 1, file) > 0);
    EXPECT(strcmp(command, arguments[0]) == 0 || strstr(arguments[0], command));
    file = fopen("/proc/self/comm", "r");
    EXPECT(fgets(command, sizeof command, file));
    command[strcspn(command, "\n")] = 0;
    EXPECT(strncmp(command, program_invocation_short_name, 15) == 0);

    int executable = 0;
    dl_iterate_phdr(first_is_me, &executable);
    EXPECT(executable);
    puts("itself");
    return 0;
}
