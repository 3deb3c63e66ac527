// A process whose first child does much, and the next ones little, each something else.
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static void do_much(void) {
    regex_t expression;
    regmatch_t match[4];
    regcomp(&expression, "^([a-z]+|[0-9]{2,4})*(x|y)?[[:space:]]+(.*)$", REG_EXTENDED | REG_ICASE);
    regexec(&expression, "abc123 something", 4, match, 0);
    regfree(&expression);
    char text[200];
    snprintf(text, sizeof text, "%.17g %a %'d %-10s|", strtod("1.25e300", NULL), 0.1, 1234567, "ab");
    time_t now = 86400 * 365;
    struct tm parts;
    strftime(text, sizeof text, "%A %d %B %Y %H:%M:%S %Z", localtime_r(&now, &parts));
}

static void do_little(int which) {
    int numbers[] = {3, 1, 2};
    char text[] = "a,b,c", number[20];
    switch (which) {
    case 1: qsort(numbers, 3, sizeof *numbers, compare); break;
    case 2: strtok(text, ","); break;
    default: snprintf(number, sizeof number, "%d", which);
    }
}

int main(void) {
    for (int which = 0; which < 4; which++) {
        if (fork() == 0) {
            which == 0 ? do_much() : do_little(which);
            exit(0);
        }
        wait(NULL);
    }
    puts("served");
    return 0;
}
