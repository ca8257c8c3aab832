const char* b() { return std::getenv("B"); }
