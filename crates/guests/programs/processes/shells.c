// system and popen, in both directions, and a child that a signal kills.
// flags: -O2
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "expect.h"

int main(void) {
    char line[100];
    EXPECT(WEXITSTATUS(system("exit 9")) == 9);
    EXPECT(WTERMSIG(system("kill -KILL $$")) == 9);
    FILE *from = popen("seq 1 1000 | tail -n 1", "r");
    EXPECT(fgets(line, sizeof line, from) && strcmp(line, "1000\n") == 0 && pclose(from) == 0);
    fflush(stdout);
    FILE *to = popen("tr a-z A-Z", "w");
    fputs("upper case\n", to);
    EXPECT(pclose(to) == 0);
    return 0;
}
