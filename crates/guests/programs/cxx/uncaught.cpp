// An exception that nobody catches ends the program by abort, with its message.
// ending: signal 6
#include <stdexcept>

int main() {
    throw std::runtime_error("nobody listens");
}
