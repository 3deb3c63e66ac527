// Loads a library and calls a function of it three times; forks a child that calls another
// function, and with an argument becomes a program that ends with status 4.
// flags: -g -O1
// libraries: -ldl
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int sum;

__attribute__((noinline)) void visit(int value) { sum += value; }

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "second") == 0) {
        visit(4);
        return sum;
    }
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library == NULL) return 1;
    double (*root)(double) = (double (*)(double))dlsym(library, "cbrt");
    for (int i = 1; i <= 3; i++) visit((int)root(i * i * i));
    int child = fork();
    if (child == 0) {
        visit(5);
        _exit(sum);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return 1;
    printf("%d, in the child %d\n", sum, WEXITSTATUS(status));
    fflush(stdout);
    if (count > 1) execl(arguments[0], arguments[0], "second", NULL);
    return 0;
}
