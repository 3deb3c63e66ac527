// The library that libraries_in_a_loop opens.

static int start;
static __thread int calls;
static int *closed;

__attribute__((constructor)) static void set_up(void) {
    start = 100;
}

__attribute__((destructor)) static void tear_down(void) {
    if (closed)
        ++*closed;
}

int plugin_next(void);
int plugin_next(void) {
    return start + ++calls;
}

void plugin_on_close(int *counter);
void plugin_on_close(int *counter) {
    closed = counter;
}
