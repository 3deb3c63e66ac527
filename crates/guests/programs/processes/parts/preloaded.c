// Takes the place of a function of the C library.
#include <unistd.h>

uid_t getuid(void) { return 4711; }
