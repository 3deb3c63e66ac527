// Children in their parent's place (vfork) that try to execute programs which are not there, with long
// lists of arguments, until another thread of the parent's kills them.
// flags: -O1 -pthread -D_GNU_SOURCE
#include "killed_children.h"

enum { WORDS = 200 };

static char *words[WORDS + 1];

static void try_to_execute(void) { execve("/not/there", words, words); }

int main(void) {
    for (int number = 0; number < WORDS; number++)
        words[number] = "a word of some length, of which the engine makes a copy";
    kill_children_that(try_to_execute);
    return 0;
}
