#include "kernels/scale.cu"
#include "kernels/../tools/command.hpp"
#include "policy/units.hpp"
#include "tools/command.hpp"
void say() { std::printf("hello"); }
void say_it_again() { std::cout << "hello"; }
void allowed() { std::fprintf(stderr, "to stderr: printf(\"x\")"); }
const char* a() { return getenv("A"); }
