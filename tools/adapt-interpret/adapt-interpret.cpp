#include "adapt/Interpreter/Command.h"

int main(int argc, char **argv) { return adapt::interp::interpretMain(argc, argv); }
